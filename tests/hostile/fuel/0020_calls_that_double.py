# Tries: calls 2^33 functions, 33 deep
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def f(f, n):
        return f(f, n - 1) + f(f, n - 1) if n else 1
    f(f, 33)
    io.write("y", all_reduce(io.read("x")))
