# Tries: changes a name of the file from inside
# Wall: parse: global is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    global kept
    kept = 1
    io.write("y", all_reduce(io.read("x")))
