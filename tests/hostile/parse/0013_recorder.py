# Tries: forgets what was recorded
# Wall: parse: must not begin with an underscore
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    io._recorder.events.clear()
    io.write("y", all_reduce(io.read("x")))
