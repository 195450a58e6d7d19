# Tries: stops in the middle, to go on when nobody looks
# Wall: parse: yield is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    def later():
        yield 1
    later()
    io.write("y", all_reduce(io.read("x")))
