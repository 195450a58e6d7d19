# Tries: adds 10^12 integers in one call
# Wall: fuel: makes more than
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    total = sum(range(10 ** 12))
    io.write("y", all_reduce(io.read("x")))
