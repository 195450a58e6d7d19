# Tries: fills the disk
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    with open('here', 'wb') as file:
        file.write(bytes(10 ** 8))
    io.write("y", all_reduce(io.read("x")))
