# Tries: starts processes that start processes
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    for _ in range(3):
        if os.fork() == 0:
            os._exit(0) if os.fork() == 0 else os._exit(0)
    io.write("y", all_reduce(io.read("x")))
