# Tries: reads what the process is told later
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.read(0, 1)
    io.write("y", all_reduce(io.read("x")))
