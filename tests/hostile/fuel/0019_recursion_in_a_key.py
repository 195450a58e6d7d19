# Tries: calls itself by way of sorted
# Wall: fuel: calls nest deeper than
# Without: RecursionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def f(f):
        return sorted([1, 2], key=lambda i: f(f))
    f(f)
    io.write("y", all_reduce(io.read("x")))
