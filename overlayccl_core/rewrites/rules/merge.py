"""{C(x_i)} -> slices of C(x_i side by side): collectives that cannot wait for each other in buckets.

Knob: the largest bucket (joining.py). Side conditions: one kind, reduction, groups (or partners), label and dtype;
equal depth through the model's segments, so that no bucket waits for itself or for another.
"""

from collections.abc import Callable, Sequence
from functools import cache

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
    Factor,
    Replacements,
    RuleNumerics,
    blocks_in,
    blocks_out,
    cut_apart,
    side_by_side,
)

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.MERGE


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The knobs that give different buckets, coarse ones first."""
    return different_buckets(independent(program, sites), (ALL, *SHARES, *CAPS))


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    replacements: dict[Node, Replacement] = {}
    for level in independent(program, sites):
        for bucket in in_buckets(level, knob):
            if len(bucket) > 1:
                replacements.update(_joined(bucket))
    return replacements


def _joined(bucket: Bucket) -> dict[Node, Replacement]:
    """Each of the bucket as columns of one collective, made once."""
    first = bucket[0]

    @cache
    def whole(go: Callable[[Node], Node]) -> Node:
        return rebuild(first, [side_by_side([go(x.operands[0]) for x in bucket], blocks_in(first))])

    return cut_apart(whole, bucket, blocks_out(first))
