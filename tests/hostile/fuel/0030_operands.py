# Tries: joins a million values, again and again
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, concat


def tried(io, p):
    x = io.read('x')
    for _ in range(100):
        y = concat([x] * 10 ** 6)
    io.write('y', all_reduce(x))
