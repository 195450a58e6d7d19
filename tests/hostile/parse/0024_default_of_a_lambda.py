# Tries: calls when a function is made
# Wall: parse: plain arguments without defaults
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    f = lambda x=open('/etc/passwd'): x
    io.write("y", all_reduce(io.read("x")))
