# Tries: writes an integer that no array holds
# Wall: parse: integers must stay below 2^63
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = 18446744073709551616
    io.write("y", all_reduce(io.read("x")))
