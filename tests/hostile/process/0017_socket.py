# Tries: opens a socket to anywhere
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import socket
    socket.socket().close()
    io.write("y", all_reduce(io.read("x")))
