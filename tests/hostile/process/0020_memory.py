# Tries: takes three gigabytes
# Wall: process: takes too much memory
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    block = bytes(3 * 2 ** 30)
    io.write("y", all_reduce(io.read("x")))
