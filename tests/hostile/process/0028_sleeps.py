# Tries: does nothing for a while
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import time
    time.sleep(0.01)
    io.write("y", all_reduce(io.read("x")))
