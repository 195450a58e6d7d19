# Tries: calls something on its own function
# Wall: parse: no decorators
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    @(lambda f: f)
    def inner(x):
        return x
    inner(1)
    io.write("y", all_reduce(io.read("x")))
