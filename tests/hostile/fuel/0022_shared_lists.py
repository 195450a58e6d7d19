# Tries: compares 2^30 items that are 30 lists
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = [1]
    b = [1]
    for _ in range(30):
        a = [a, a]
        b = [b, b]
    if a == b:
        pass
    io.write("y", all_reduce(io.read("x")))
