# Tries: looks for what is not there
# Wall: fuel: makes more than
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    found = any([0]) or all(range(1, 10 ** 12))
    io.write("y", all_reduce(io.read("x")))
