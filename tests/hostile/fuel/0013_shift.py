# Tries: makes an integer of 12 GB
# Wall: fuel: must stay below 2^63
# Without: takes too much memory
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    n = 1 << 10 ** 11
    io.write("y", all_reduce(io.read("x")))
