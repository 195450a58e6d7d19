# Tries: makes nodes past the operations
# Wall: parse: the only import is
# Without: goes through
from overlayccl_core.program.nodes import make_scale
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    make_scale
    io.write("y", all_reduce(io.read("x")))
