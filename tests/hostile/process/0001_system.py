# Tries: runs a command of the shell
# Wall: process: no shell
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    if os.system('true') != 0:
        raise OSError('no shell')
    io.write("y", all_reduce(io.read("x")))
