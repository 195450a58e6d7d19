"""AG(RS(x)) -> AR(x), without the zeros at the end of x that were there to make it divide.

Side conditions: both over the same groups, of more than one rank, under the same label; the reduce_scatter sums.
"""

from collections.abc import Callable, Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import ZERO
from overlayccl_core.program.nodes import Node, Replacement
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, adds, head, like, no_knobs

KINDS = (Kind.ALL_GATHER,)
NUMERICS = RuleNumerics.REORDERED
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    return {x: _reduced(x) for x in sites if _gathers_shares(x)}


def _gathers_shares(x: Node) -> bool:
    (share,) = x.operands
    return (
        share.kind is Kind.REDUCE_SCATTER
        and adds(share)
        and share.groups is x.groups
        and share.label == x.label
        and x.groups.size > 1
    )


def _reduced(x: Node) -> Replacement:
    (share,) = x.operands

    def build(go: Callable[[Node], Node]) -> Node:
        whole = go(share.operands[0])
        return head(like(x, Kind.ALL_REDUCE, head(whole, _size_without_padding(whole))), x.size)

    return build


def _size_without_padding(x: Node) -> int:
    """The number of elements before the zeros at the end of x on every rank (at least one)."""
    if x.kind is Kind.SCALE:
        return _size_without_padding(x.operands[0])
    if x.kind is not Kind.VIEW or x.map.rows > 1 or x.map.sources[-1] != ZERO:
        return x.size
    return max(int(x.map.keys[-1]), 1)
