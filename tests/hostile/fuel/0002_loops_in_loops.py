# Tries: loops for minutes, in two short loops
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    for i in range(10 ** 6):
        for j in range(10 ** 6):
            k = i * j
    io.write("y", all_reduce(io.read("x")))
