# Tries: imports by a call
# Wall: parse: names must not begin with two underscores
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    __import__('os').mkdir('here')
    io.write("y", all_reduce(io.read("x")))
