# Tries: gets at the system through a module, in the function
# Wall: parse: import inside a function is not in the language
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.mkdir('here')
    io.write("y", all_reduce(io.read("x")))
