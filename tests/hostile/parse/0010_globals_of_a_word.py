# Tries: reaches the module of a word by its globals
# Wall: parse: must not begin with an underscore
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    all_reduce.__globals__['nodes']
    io.write("y", all_reduce(io.read("x")))
