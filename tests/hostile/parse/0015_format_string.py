# Tries: walks attributes inside a text
# Wall: parse: no attribute .format of str
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    '{0.read.__func__.__globals__}'.format(io)
    io.write("y", all_reduce(io.read("x")))
