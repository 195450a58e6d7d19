# Tries: calls something else by the name of an operation
# Wall: parse: int cannot be called
# Without: TypeError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    all_reduce = 0
    all_reduce(io.read('x'))
