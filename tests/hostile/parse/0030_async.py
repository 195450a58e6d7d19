# Tries: runs when a loop says so
# Wall: parse: is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    async def later():
        return 1
    later().close()
    io.write("y", all_reduce(io.read("x")))
