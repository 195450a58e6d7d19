# Tries: opens sockets to itself
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import socket
    for end in socket.socketpair():
        end.close()
    io.write("y", all_reduce(io.read("x")))
