# Tries: counts to 10^24 in one line
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    n = len([0 for a in range(10 ** 6) for b in range(10 ** 6) for c in range(10 ** 6) if a > b + c])
    io.write("y", all_reduce(io.read("x")))
