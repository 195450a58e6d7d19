# Tries: writes what is no integer
# Wall: parse: constants are integers and texts
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = 1e308
    io.write("y", all_reduce(io.read("x")))
