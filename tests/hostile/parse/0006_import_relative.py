# Tries: imports from where it stands
# Wall: parse: the only import is
# Without: not in globals
from . import tracing
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    io.write("y", all_reduce(io.read("x")))
