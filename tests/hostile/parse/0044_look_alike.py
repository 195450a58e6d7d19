# Tries: names something by a letter of another alphabet
# Wall: parse: unknown name
# Without: NameError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    аll_reduce(io)
    io.write("y", all_reduce(io.read("x")))
