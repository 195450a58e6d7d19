# Tries: scales until the exact factor is a page of digits
# Wall: fuel: a factor of more than 256 bits
# Without: 4300 digits
from overlayccl_core.program.language import all_reduce, scale


def tried(io, p):
    x = io.read('x')
    for _ in range(10 ** 4):
        x = scale(x, 2 ** 62, 3 ** 30)
    io.write('y', all_reduce(x))
