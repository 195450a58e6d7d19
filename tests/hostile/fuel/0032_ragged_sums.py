# Tries: sums over an axis whose layout is large, and gone when it is done
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, broadcast, reduce_sum, reshape


def tried(io, p):
    x = io.read('x')
    for i in range(100):
        y = reduce_sum(reshape(broadcast(x, 0, 2 ** 18 - i), (2 ** 18 - i, 8)), 1)
    io.write('y', all_reduce(x))
