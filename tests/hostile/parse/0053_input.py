# Tries: reads what the process that traces it is asked
# Wall: parse: unknown name 'input'
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    input()
    io.write("y", all_reduce(io.read("x")))
