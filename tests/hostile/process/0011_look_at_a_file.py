# Tries: asks whether a file is there
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.stat('/etc/passwd')
    io.write("y", all_reduce(io.read("x")))
