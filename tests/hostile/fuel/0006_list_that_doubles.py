# Tries: makes a list of 2^60 items
# Wall: fuel: makes more than
# Without: takes too much memory or s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = [0]
    for _ in range(60):
        table = table + table
    io.write("y", all_reduce(io.read("x")))
