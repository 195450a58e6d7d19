# Tries: becomes another program
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    if not os.access('/bin/true', os.X_OK):
        os.execv('/bin/true', ['true'])
    io.write("y", all_reduce(io.read("x")))
