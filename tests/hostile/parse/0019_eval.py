# Tries: computes a text
# Wall: parse: unknown name 'eval'
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    eval('open("/etc/passwd")')
    io.write("y", all_reduce(io.read("x")))
