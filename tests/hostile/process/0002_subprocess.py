# Tries: starts a program
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import subprocess
    subprocess.run(['true'], check=True)
    io.write("y", all_reduce(io.read("x")))
