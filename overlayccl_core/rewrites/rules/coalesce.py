"""{C(V_i(x, ..))} -> V_i of {C(x)} of one call: what is not laid end to end is asked for at once.

As `merge` without its buffer, and out of one: every value is its own. Readers which take the buffer apart need no
layout any more. Knob: the largest call (joining.py), not as a share. Side conditions: a library takes several of
this kind; each has a call of its own; one reduction, groups, label and dtype; equal depth through the model's
segments; V is one for all ranks and no smaller than its operands.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from overlayccl_core.program.calls import make_call
from overlayccl_core.program.kinds import COALESCED, Kind
from overlayccl_core.program.nodes import Node, Replacement, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import by_readiness
from overlayccl_core.rewrites.joining import ALL, CAPS, Bucket, different_buckets, in_buckets, independent
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics

KINDS = COALESCED
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.MERGE


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The knobs that give different calls, large ones first."""
    return different_buckets([values for _, values in _levels(program, sites)], (ALL, *CAPS), _held)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    replacements: dict[Node, Replacement] = {}
    for level, values in _levels(program, sites):
        calls = [(bucket, _made_once(level[0], bucket)) for bucket in in_buckets(values, knob, _held)]
        one_call = {y: call for bucket, call in calls for y in bucket}
        replacements.update({x: _laid_out(x, one_call) for x in level})
    return replacements


def _levels(program: Program, sites: Sequence[Node]) -> Iterator[tuple[list[Node], list[Node]]]:
    """(sites that may be one call, the values laid out by them)."""
    alone = [x for x in sites if not x.label.call]  # a call's other nodes have a class too
    for level in independent(program, alone):
        yield level, by_readiness(program, {y for x in level for y in _values(x)})


def _held(value: Node) -> int:
    return value.bytes


def _values(x: Node) -> tuple[Node, ...]:
    """The values laid out by a collective's operand."""
    y = x.operands[0]
    apart = y.kind is Kind.VIEW and y.map.rows == 1 and 0 < sum(z.size for z in y.operands) <= y.size
    return y.operands if apart else (y,)


Made = Callable[[Callable[[Node], Node]], dict[Node, Node]]


def _made_once(like: Node, bucket: Bucket) -> Made:
    """value -> its result of one call, as `like`, for the whole bucket."""

    @cache
    def given(go: Callable[[Node], Node]) -> dict[Node, Node]:
        values = [go(y) for y in bucket]
        call = make_call(like.kind, values, like.groups, like.label, like.attr.reduction)
        return dict(zip(bucket, call, strict=True))

    return given


def _laid_out(x: Node, one_call: dict[Node, Made]) -> Replacement:
    """x laid out from the results of the calls."""

    def replacement(go: Callable[[Node], Node]) -> Node:
        given = [one_call[y](go)[y] for y in _values(x)]
        return make_view(given, x.operands[0].map, x.dtype) if _values(x) != x.operands else given[0]

    return replacement
