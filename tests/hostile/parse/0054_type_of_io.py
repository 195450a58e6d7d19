# Tries: gets at a class, and what hangs on it
# Wall: parse: unknown name 'type'
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    type(io).read
    io.write("y", all_reduce(io.read("x")))
