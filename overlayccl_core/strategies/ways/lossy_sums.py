"""Ways of summing that lose bits: f(values, p) gives the totals, in order and shape. Read, never executed."""

from overlayccl_core.program.language import all_reduce, cast, not_applicable
from overlayccl_core.strategies.ways import buffers


def bf16_on_the_wire(values, p):
    """Half the bytes, and sums in 16 bits: lossy."""
    if p.dtype == "bfloat16":
        not_applicable("the values are bfloat16 already")
    total = all_reduce(cast(buffers.joined(values), "bfloat16"), "sum")
    return buffers.apart(cast(total, p.dtype), values)
