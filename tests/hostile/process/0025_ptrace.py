# Tries: asks to be traced, as a debugger would be
# Wall: process: refused
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import ctypes
    if ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0:
        raise OSError('refused')
    io.write("y", all_reduce(io.read("x")))
