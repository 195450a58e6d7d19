"""{C(x_i)} -> {C(x_i)} of one call: collectives that cannot wait for each other, asked for at once.

As `merge` without its buffer: nothing is laid end to end, and every value stays a node of its own. Knob: the most
that one call takes (joining.py), not as a share. Side conditions: a kind of which libraries take several; each has
a call of its own; one reduction, groups, label and dtype; equal depth through the model's segments. Numerics: same.
"""

from collections.abc import Callable, Sequence

from overlayccl_core.program.calls import make_call
from overlayccl_core.program.kinds import COALESCED
from overlayccl_core.program.nodes import Node, Replacement
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.joining import ALL, CAPS, Bucket, different_buckets, in_buckets, independent
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics

KINDS = COALESCED
NUMERICS = RuleNumerics.SAME


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The knobs that give different calls, large ones first."""
    return different_buckets(independent(program, _with_own_call(sites)), (ALL, *CAPS))


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Give what each bucket holds one call."""
    replacements: dict[Node, Replacement] = {}
    for level in independent(program, _with_own_call(sites)):
        for bucket in in_buckets(level, knob):
            replacements.update(_by_one_call(bucket))
    return replacements


def _with_own_call(sites: Sequence[Node]) -> list[Node]:
    """Those that share none: of a call, others may be of another class."""
    return [x for x in sites if not x.label.call]


def _by_one_call(bucket: Bucket) -> dict[Node, Replacement]:
    """Each of the bucket by what one call for all of it gives, made once."""
    first = bucket[0]
    made: dict[Node, Node] = {}

    def replacement(x: Node) -> Replacement:
        def given(go: Callable[[Node], Node]) -> Node:
            if not made:
                operands = [go(y.operands[0]) for y in bucket]
                call = make_call(first.kind, operands, first.groups, first.label, first.attr.reduction)
                made.update(zip(bucket, call, strict=True))
            return made[x]

        return given

    return {x: replacement(x) for x in bucket}
