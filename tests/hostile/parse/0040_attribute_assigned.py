# Tries: puts something else in a method's place
# Wall: parse: only names (or tuples of names) can be assigned to
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    io.other = io.read
    io.write("y", all_reduce(io.read("x")))
