# Tries: ends graphs without end
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_reduce, boundary


def tried(io, p):
    for _ in range(10 ** 8):
        boundary()
    io.write("y", all_reduce(io.read("x")))
