# Tries: asks for a value of 2^62 elements
# Wall: fuel: elements on a rank
# Without: goes through
from overlayccl_core.program.language import all_reduce, zeros


def tried(io, p):
    y = zeros((2 ** 62, 2 ** 10))
    io.write("y", all_reduce(io.read("x")))
