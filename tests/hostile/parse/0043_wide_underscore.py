# Tries: writes an underscore that is none until Python reads it
# Wall: parse: must not begin with an underscore
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    io.read.__ｆunc__
    io.write("y", all_reduce(io.read("x")))
