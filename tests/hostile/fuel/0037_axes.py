# Tries: gives a value more axes than any library has
# Wall: fuel: a shape of 101 axes
# Without: ValueError
from overlayccl_core.program.language import all_reduce, permute_dims, reshape


def tried(io, p):
    y = permute_dims(reshape(io.read('x'), [1] * 100 + [8]), [100 - i for i in range(101)])
    io.write("y", all_reduce(io.read("x")))
