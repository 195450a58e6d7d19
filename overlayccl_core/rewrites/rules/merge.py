"""{C(x_i)} -> slices of C(x_i side by side): collectives that cannot wait for each other in buckets.

Knob: the largest bucket (joining.py). Side conditions: one kind, reduction, groups (or partners), label and dtype;
equal depth through the model's segments, so that no bucket waits for itself or for another. Numerics: same.
"""

from collections.abc import Callable, Sequence

from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.program.nodes import Node, Replacement, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.joining import (
    ALL,
    CAPS,
    SHARES,
    Bucket,
    different_buckets,
    in_buckets,
    independent,
)
from overlayccl_core.rewrites.rule import (
    Replacements,
    RuleNumerics,
    blocks_in,
    blocks_out,
    columns,
    side_by_side,
)

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The knobs that give different buckets, coarse ones first."""
    return different_buckets(independent(program, sites), (ALL, *SHARES, *CAPS))


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Join what each bucket holds."""
    replacements: dict[Node, Replacement] = {}
    for level in independent(program, sites):
        for bucket in in_buckets(level, knob):
            if len(bucket) > 1:
                replacements.update(_joined(bucket))
    return replacements


def _joined(bucket: Bucket) -> dict[Node, Replacement]:
    """Each of the bucket as columns of one collective, made once."""
    first = bucket[0]
    made: list[Node] = []

    def whole(go: Callable[[Node], Node]) -> Node:
        if not made:
            operand = side_by_side([go(x.operands[0]) for x in bucket], blocks_in(first))
            made.append(rebuild(first, [operand]))
        return made[0]

    rows = blocks_out(first)
    replacements, start = {}, 0
    for x in bucket:
        width = x.size // rows
        replacements[x] = _columns(whole, rows, start, width)
        start += width
    return replacements


def _columns(
    whole: Callable[[Callable[[Node], Node]], Node], rows: int, start: int, width: int
) -> Replacement:
    return lambda go: columns(whole(go), rows, start, width)
