# Tries: works out layouts in turn, more than are kept
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, broadcast, permute_dims, reshape, slice_axis


def tried(io, p):
    x = broadcast(io.read('x'), 0, 1024)
    for _ in range(10 ** 5):
        for i in range(300):
            y = permute_dims(reshape(slice_axis(x, 0, 0, 1023 - i), (1023 - i, 8)), (1, 0))
    io.write('y', all_reduce(io.read('x')))
