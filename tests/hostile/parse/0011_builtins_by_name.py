# Tries: reaches Python's functions by the module's own name for them
# Wall: parse: names must not begin with two underscores
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    everything = __builtins__
    io.write("y", all_reduce(io.read("x")))
