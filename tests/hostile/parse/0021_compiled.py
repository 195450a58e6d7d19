# Tries: runs what it has compiled
# Wall: parse: unknown name 'compile'
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    compile('1', 'a', 'eval')
    io.write("y", all_reduce(io.read("x")))
