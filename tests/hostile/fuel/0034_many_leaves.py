# Tries: joins parts of all values so far, again and again
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, concat, slice_axis


def tried(io, p):
    x = io.read('x')
    all_of_them = [x]
    for i in range(10 ** 4):
        x = all_reduce(slice_axis(concat(all_of_them), 0, 8 * i, 8))
        all_of_them += [x]
    io.write('y', x)
