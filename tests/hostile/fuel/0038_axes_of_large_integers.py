# Tries: multiplies a million extents
# Wall: fuel: a shape of 1000000 axes
# Without: s of CPU
from overlayccl_core.program.language import reshape


def tried(io, p):
    y = reshape(io.read('x'), [2 ** 62] * 10 ** 6)
