# Tries: loops for minutes
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    for i in range(10 ** 9):
        pass
    io.write("y", all_reduce(io.read("x")))
