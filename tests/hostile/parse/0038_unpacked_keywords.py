# Tries: hands over names as arguments
# Wall: parse: ** arguments are not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    max([1], **{'key': abs})
    io.write("y", all_reduce(io.read("x")))
