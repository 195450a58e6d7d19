# Tries: looks through a list again and again
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    table = list(range(10 ** 6))
    for _ in range(10 ** 5):
        found = -1 in table
    io.write("y", all_reduce(io.read("x")))
