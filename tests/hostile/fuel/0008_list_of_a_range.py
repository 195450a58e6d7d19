# Tries: writes out a billion integers
# Wall: fuel: makes more than
# Without: takes too much memory or s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = list(range(10 ** 9))
    io.write("y", all_reduce(io.read("x")))
