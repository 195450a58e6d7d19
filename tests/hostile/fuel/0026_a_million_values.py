# Tries: cuts a value into a million
# Wall: fuel: units of work
# Without: s of CPU
from overlayccl_core.program.language import all_gather, concat, split


def tried(io, p):
    x = split(all_gather(concat([io.read('x')] * 2 ** 15)), 2 ** 20)
