# Tries: writes where everybody may
# Wall: process: Error
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import tempfile
    tempfile.TemporaryFile().write(b'x')
    io.write("y", all_reduce(io.read("x")))
