# Tries: multiplies a million integers
# Wall: fuel: must stay below 2^63
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    n = 1
    for i in range(1, 10 ** 6):
        n *= i
    io.write("y", all_reduce(io.read("x")))
