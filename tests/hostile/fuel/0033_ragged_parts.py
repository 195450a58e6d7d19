# Tries: reads one element of a ragged layout, again and again
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, broadcast, flatten, permute_dims, slice_axis


def tried(io, p):
    x = flatten(permute_dims(broadcast(io.read('x'), 0, 2 ** 17), (1, 0)))
    for i in range(10 ** 5):
        y = slice_axis(x, 0, i, 8)
    io.write('y', all_reduce(y))
