# Tries: writes raw bytes
# Wall: parse: constants are integers and texts
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = b'\x90\x90'
    io.write("y", all_reduce(io.read("x")))
