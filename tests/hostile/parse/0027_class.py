# Tries: makes a class with methods that Python calls by itself
# Wall: parse: class is not in the language
# Without: goes through
from overlayccl_core.program.language import all_reduce


def tried(io, p):
    class Index:
        def __index__(self):
            return 0
    Index()
    io.write("y", all_reduce(io.read("x")))
