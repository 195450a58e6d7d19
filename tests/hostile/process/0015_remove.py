# Tries: removes the folder that it stands in
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.rmdir(os.getcwd())
    io.write("y", all_reduce(io.read("x")))
