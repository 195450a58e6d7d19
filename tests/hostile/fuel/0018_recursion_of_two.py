# Tries: calls itself by way of another
# Wall: fuel: calls nest deeper than
# Without: RecursionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def f(f, g):
        return g(g, f)
    f(f, f)
    io.write("y", all_reduce(io.read("x")))
