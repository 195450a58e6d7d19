# Tries: imports a module that is not loaded
# Wall: process: ModuleNotFoundError
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import wave
    io.write("y", all_reduce(io.read("x")))
