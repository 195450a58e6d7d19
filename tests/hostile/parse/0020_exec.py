# Tries: runs a text
# Wall: parse: unknown name 'exec'
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    exec('import os; os.mkdir("here")')
    io.write("y", all_reduce(io.read("x")))
