# Tries: opens in a statement of its own
# Wall: parse: with is not in the language
# Without: PermissionError
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    with open('/etc/passwd') as file:
        file.read()
    io.write("y", all_reduce(io.read("x")))
