# Tries: changes a list that others hold
# Wall: parse: only names (or tuples of names) can be assigned to
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = [0]
    a[0] = 1
    io.write("y", all_reduce(io.read("x")))
