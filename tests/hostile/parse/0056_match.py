# Tries: takes values apart by their classes
# Wall: parse: match is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    match p:
        case object(ranks=r):
            pass
    io.write("y", all_reduce(io.read("x")))
