# Tries: makes a value again and again that there is already
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_gather, all_reduce


def tried(io, p):
    x = io.read('x')
    for _ in range(10 ** 6):
        y = all_gather(x)
    io.write('y', all_reduce(x))
