# Tries: starts a thread
# Wall: process: can't start new thread
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import threading
    thread = threading.Thread(target=len, args=([],))
    thread.start()
    thread.join()
    io.write("y", all_reduce(io.read("x")))
