# Tries: takes a module that the language's module uses
# Wall: parse: the language has no 'np'
# Without: goes through
from overlayccl_core.program.language import all_reduce, np


def tried(io, p):
    np.load
    io.write("y", all_reduce(io.read("x")))
