# Tries: reads a file
# Wall: parse: unknown name 'open'
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    open('/etc/passwd').read()
    io.write("y", all_reduce(io.read("x")))
