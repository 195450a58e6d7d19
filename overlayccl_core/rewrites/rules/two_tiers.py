"""A collective of the world -> one within the nodes and one across them, by the topology of the Case.

AR  reduce   AR_across(AR_in(x))
    scatter  AG_in(AR_across(RS_in(x))), padded to a multiple of the ranks of a node
AG           V(AG_in(AG_across(x)))
A2A          A2A_across(V(A2A_in(V x))): first to the rank of my node with the target's place

Side conditions: groups are the world; there are nodes, of more than one rank.
"""

from collections.abc import Sequence

from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, make_collective
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.classes import tiers
from overlayccl_core.rewrites.rule import (
    DoesNotApply,
    Factor,
    Replacements,
    RuleNumerics,
    each,
    head,
    interleaved,
    padded,
)

KINDS = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.ALL_TO_ALL)
NUMERICS = RuleNumerics.REORDERED  # the all_reduces; the others move the same elements
FACTOR = Factor.PRIMITIVE

REDUCE, SCATTER = "reduce", "scatter"


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The two forms of an all_reduce; one form of the others; none where there is one tier."""
    if not tiers(program.problem.case) or not any(x.groups.is_world for x in sites):
        return ()
    return _forms(sites[0])


def _forms(x: Node) -> tuple[str, ...]:
    return (REDUCE, SCATTER) if x.kind is Kind.ALL_REDUCE else ("",)


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    both = tiers(program.problem.case)
    if both is None:
        raise DoesNotApply("the Case has one tier")
    if knob not in (forms := _forms(sites[0])):
        raise DoesNotApply(
            f"no form {knob!r} of {sites[0].kind.value}: choose among {', '.join(map(repr, forms))}"
        )
    node, across = both

    def tiered(x: Node, operand: Node) -> Node:
        match x.kind:
            case Kind.ALL_REDUCE if knob == REDUCE:
                return _again(x, _again(x, operand, node), across)
            case Kind.ALL_REDUCE:
                return _scattered(x, operand, node, across)
            case Kind.ALL_GATHER:
                lanes = _again(x, _again(x, operand, across), node)
                return interleaved(lanes, node.size, across.size)
        inside = _again(x, interleaved(operand, across.size, node.size), node)
        return _again(x, interleaved(inside, node.size, across.size), across)

    return each((x for x in sites if x.groups.is_world), tiered)


def _scattered(x: Node, operand: Node, node: Groups, across: Groups) -> Node:
    reduction = x.attr.reduction
    share = make_collective(Kind.REDUCE_SCATTER, padded(operand, node.size), node, x.label, reduction)
    total = _again(x, share, across)
    return head(make_collective(Kind.ALL_GATHER, total, node, x.label), x.size)


def _again(x: Node, operand: Node, groups: Groups) -> Node:
    """The same kind of collective over other groups."""
    return make_collective(x.kind, operand, groups, x.label, x.attr.reduction)
