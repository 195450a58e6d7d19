# Tries: makes a text of two billion characters by a method
# Wall: parse: no attribute .zfill of str
# Without: takes too much memory
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    text = 'x'.zfill(2 * 10 ** 9)
    io.write("y", all_reduce(io.read("x")))
