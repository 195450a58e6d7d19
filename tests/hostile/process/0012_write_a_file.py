# Tries: leaves a file
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    open('here', 'w').write('x')
    io.write("y", all_reduce(io.read("x")))
