# Tries: sends a signal to who started it
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import os, signal
    os.kill(os.getppid(), signal.SIGURG)
    io.write("y", all_reduce(io.read("x")))
