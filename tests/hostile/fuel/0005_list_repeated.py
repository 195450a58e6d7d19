# Tries: makes a list of 10^10 items
# Wall: fuel: makes more than
# Without: takes too much memory
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = [0] * 10 ** 10
    io.write("y", all_reduce(io.read("x")))
