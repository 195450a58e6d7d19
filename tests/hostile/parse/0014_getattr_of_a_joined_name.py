# Tries: writes an attribute's name so that no syntax shows it
# Wall: parse: unknown name 'getattr'
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    getattr(io, '_re' + 'corder').events.clear()
    io.write("y", all_reduce(io.read("x")))
