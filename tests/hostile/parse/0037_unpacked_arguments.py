# Tries: hands over a list as arguments
# Wall: parse: * before a value is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    max(*[1, 2])
    io.write("y", all_reduce(io.read("x")))
