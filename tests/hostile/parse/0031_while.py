# Tries: never ends
# Wall: parse: while is not in the language
# Without: s of CPU
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    while True:
        pass
    io.write("y", all_reduce(io.read("x")))
