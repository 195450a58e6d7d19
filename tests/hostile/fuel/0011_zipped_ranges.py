# Tries: pairs a billion integers with as many
# Wall: fuel: makes more than
# Without: takes too much memory or s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = list(zip(range(10 ** 9), range(10 ** 9)))
    io.write("y", all_reduce(io.read("x")))
