# Tries: leaks the frame of a generator
# Wall: parse: no attribute .gi_frame of list
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    frame = (i for i in [1]).gi_frame.f_globals
    io.write("y", all_reduce(io.read("x")))
