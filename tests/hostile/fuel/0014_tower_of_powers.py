# Tries: makes an integer of 370 million digits
# Wall: fuel: must stay below 2^63
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    n = 9 ** 9 ** 9
    io.write("y", all_reduce(io.read("x")))
