# Tries: starts another process
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    if os.fork() == 0:
        os._exit(0)
    io.write("y", all_reduce(io.read("x")))
