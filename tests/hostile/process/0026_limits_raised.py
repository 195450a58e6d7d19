# Tries: gives itself more memory
# Wall: process: Errno 1]
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
    io.write("y", all_reduce(io.read("x")))
