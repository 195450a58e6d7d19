# Tries: hides what is wrong, refusals among it
# Wall: parse: try is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    try:
        all_reduce(0)
    except Exception:
        pass
    io.write("y", all_reduce(io.read("x")))
