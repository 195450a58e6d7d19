# Tries: reads the memory and the arguments of its process
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    open('/proc/self/cmdline').read()
    io.write("y", all_reduce(io.read("x")))
