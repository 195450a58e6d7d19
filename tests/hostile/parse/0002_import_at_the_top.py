# Tries: gets at the system through a module, before the function
# Wall: parse: the only import is
# Without: PermissionError
import os
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    os.listdir('/')
    io.write("y", all_reduce(io.read("x")))
