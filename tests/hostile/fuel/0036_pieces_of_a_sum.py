# Tries: adds 2^40 blocks of one element, of a value that is cut once
# Wall: fuel: separate runs
# Without: takes too much memory
from overlayccl_core.program.language import all_gather, all_reduce, reduce_sum, slice_axis


def tried(io, p):
    x = io.read('x')
    for _ in range(19):
        x = all_gather(x)
    y = reduce_sum(slice_axis(x, 0, 1, 2 ** 40), 0)
    io.write('y', all_reduce(io.read('x')))
