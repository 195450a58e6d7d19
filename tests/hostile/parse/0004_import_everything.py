# Tries: takes all names of the language's module, NumPy among them
# Wall: parse: the language has no '*'
# Without: goes through
from overlayccl_core.program.language import *


def tried(io, p):
    np.zeros(1)
    io.write("y", all_reduce(io.read("x")))
