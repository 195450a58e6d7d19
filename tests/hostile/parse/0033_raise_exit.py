# Tries: ends the process that traces it
# Wall: parse: raise is not in the language
# Without: no answer
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    raise SystemExit(3)
    io.write("y", all_reduce(io.read("x")))
