# Tries: takes any arguments
# Wall: parse: plain arguments without defaults
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def f(*a, **k):
        return a
    f(io, p, io=p)
    io.write("y", all_reduce(io.read("x")))
