# Tries: takes one function of a module
# Wall: parse: the only import is
# Without: PermissionError
from os import mkdir
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    mkdir('here')
    io.write("y", all_reduce(io.read("x")))
