# Tries: writes a page where messages go
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os
    os.write(2, b'x')
    io.write("y", all_reduce(io.read("x")))
