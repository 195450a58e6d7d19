# Tries: makes a table that no memory holds
# Wall: fuel: does not end within
# Without: takes too much memory or s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = [[0] * 1000 for i in range(10 ** 6)]
    io.write("y", all_reduce(io.read("x")))
