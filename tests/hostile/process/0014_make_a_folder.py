# Tries: leaves a folder
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.mkdir('here')
    io.write("y", all_reduce(io.read("x")))
