# Tries: makes a text of a billion characters by its format
# Wall: parse: operators are for integers
# Without: takes too much memory
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    text = '%02000000000d' % 1
    io.write("y", all_reduce(io.read("x")))
