# Tries: reads who has an account here
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    open('/etc/passwd').read()
    io.write("y", all_reduce(io.read("x")))
