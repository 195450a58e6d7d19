# Tries: reads the project's own files
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import overlayccl_core.program.language as language
    open(language.__file__).read()
    io.write("y", all_reduce(io.read("x")))
