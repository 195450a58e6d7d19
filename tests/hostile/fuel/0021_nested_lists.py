# Tries: makes whoever compares recurse
# Wall: fuel: lists nest deeper than 32
# Without: RecursionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = []
    b = []
    for _ in range(10 ** 5):
        a = [a]
        b = [b]
    if a == b:
        pass
    io.write("y", all_reduce(io.read("x")))
