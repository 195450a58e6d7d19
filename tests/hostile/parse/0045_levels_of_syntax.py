# Tries: makes whoever walks the tree recurse
# Wall: parse: more than 100 levels of syntax
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not not 0
    io.write("y", all_reduce(io.read("x")))
