# Tries: compares long texts again and again
# Wall: fuel: does not end within
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = 'x' * 10 ** 5 + 'a'
    b = 'x' * 10 ** 5 + 'b'
    for _ in range(10 ** 6):
        same = a == b
    io.write("y", all_reduce(io.read("x")))
