# Tries: keeps what it was called with before in a default
# Wall: parse: plain arguments without defaults
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def keeps(seen=[]):
        return seen
    keeps()
    io.write("y", all_reduce(io.read("x")))
