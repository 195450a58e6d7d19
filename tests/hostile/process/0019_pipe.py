# Tries: opens a pipe
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    for end in os.pipe():
        os.close(end)
    io.write("y", all_reduce(io.read("x")))
