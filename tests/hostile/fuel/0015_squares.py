# Tries: makes an integer of 2^60 bits by squaring
# Wall: fuel: must stay below 2^63
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    n = 3
    for _ in range(60):
        n = n * n
    io.write("y", all_reduce(io.read("x")))
