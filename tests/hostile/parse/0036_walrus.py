# Tries: binds inside an expression
# Wall: parse: := is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    a = [b := 1]
    io.write("y", all_reduce(io.read("x")))
