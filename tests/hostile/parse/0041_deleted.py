# Tries: removes a name
# Wall: parse: del is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = 1
    del a
    io.write("y", all_reduce(io.read("x")))
