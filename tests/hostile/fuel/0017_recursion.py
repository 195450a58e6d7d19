# Tries: calls itself without end
# Wall: fuel: calls nest deeper than
# Without: RecursionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def f(f):
        return f(f)
    f(f)
    io.write("y", all_reduce(io.read("x")))
