# Tries: gets at all names that there are
# Wall: parse: unknown name 'globals'
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    globals()['tried']
    io.write("y", all_reduce(io.read("x")))
