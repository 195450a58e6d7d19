# Tries: calls collectives without end
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, boundary


def tried(io, p):
    x = io.read('x')
    for _ in range(10 ** 6):
        boundary()
        x = all_reduce(x)
    io.write('y', x)
