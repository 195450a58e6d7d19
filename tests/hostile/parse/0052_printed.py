# Tries: writes into the answer of the process that traces it
# Wall: parse: unknown name 'print'
# Without: no JSON
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    print('{"program": {}}')
    io.write("y", all_reduce(io.read("x")))
