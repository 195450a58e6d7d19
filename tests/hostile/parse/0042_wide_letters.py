# Tries: writes open in letters that become it when Python reads them
# Wall: parse: unknown name 'open'
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    ｏｐｅｎ('/etc/passwd')
    io.write("y", all_reduce(io.read("x")))
