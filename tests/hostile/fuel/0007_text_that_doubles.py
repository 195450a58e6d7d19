# Tries: makes a text of 2^60 characters
# Wall: fuel: makes more than
# Without: takes too much memory or s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    text = 'x'
    for _ in range(60):
        text += text
    io.write("y", all_reduce(io.read("x")))
