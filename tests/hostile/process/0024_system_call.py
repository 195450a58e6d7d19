# Tries: makes a system call past Python
# Wall: process: refused
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import ctypes
    if ctypes.CDLL(None).getpriority(0, 0) != 0:
        raise OSError('refused')
    io.write("y", all_reduce(io.read("x")))
