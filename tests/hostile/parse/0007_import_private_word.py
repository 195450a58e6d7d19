# Tries: takes a function of the language that is none of its words
# Wall: parse: the language has no '_issue'
# Without: goes through
from overlayccl_core.program.language import _issue, all_reduce


def tried(io, p):
    _issue
    io.write("y", all_reduce(io.read("x")))
