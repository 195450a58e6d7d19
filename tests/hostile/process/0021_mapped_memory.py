# Tries: maps three gigabytes
# Wall: process: Cannot allocate memory
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import mmap
    mmap.mmap(-1, 3 * 2 ** 30).close()
    io.write("y", all_reduce(io.read("x")))
