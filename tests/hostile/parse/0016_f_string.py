# Tries: walks attributes inside an f-string
# Wall: parse: an f-string is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    text = f'{io._recorder}'
    io.write("y", all_reduce(io.read("x")))
