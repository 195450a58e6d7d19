# Tries: scatters elements, so that a layout has a run for each
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, broadcast, flatten, permute_dims


def tried(io, p):
    x = io.read('x')
    for i in range(100):
        y = flatten(permute_dims(broadcast(x, 0, 2 ** 18 - i), (1, 0)))
    io.write('y', all_reduce(x))
