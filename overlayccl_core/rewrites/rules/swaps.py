"""Rules of one short function each, without knobs. The function has the name of its rule.

`swap` declares the sites of a rule, its effect on rounding and its factor. The function takes a site x and the new
form of its operand; it returns the replacement of x, or (`of_sum`) of the sum of the members' blocks in x.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import COLLECTIVES, Kind, Rejected
from overlayccl_core.program.nodes import Node, Replacement, make_sum, make_view, rebuild, relabel
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import without_talk
from overlayccl_core.rewrites.rule import Factor, RuleNumerics, adds, each, head, like, no_knobs, padded

Build = Callable[[Node, Node], Node]
Holds = Callable[[Node], bool]


class Swap:
    """A rule without knobs (`rule.Rule`), made of one function."""

    knobs = staticmethod(no_knobs)

    def __init__(
        self,
        build: Build,
        kinds: tuple[Kind, ...],
        numerics: RuleNumerics,
        factor: Factor,
        where: Holds,
        of_sum: bool,
    ) -> None:
        self.KINDS, self.NUMERICS, self.FACTOR, self.__doc__ = kinds, numerics, factor, build.__doc__
        self.build, self.where, self.of_sum = build, where, of_sum

    def rewrite(self, program: Program, sites: Sequence[Node], knob: str) -> dict[Node, Replacement]:
        """Replace every site that meets the condition, or every sum over the members of such a site."""
        new = each(filter(self.where, sites), self.build)
        return {x: new[x.operands[0]] for x in _sums_over_members(program, new)} if self.of_sum else new


def _sums_over_members(program: Program, gathered: dict[Node, Replacement]) -> list[Node]:
    """The sums of one block from each member."""
    sums = [x for x in program.nodes if x.kind is Kind.SUM and x.operands[0] in gathered]
    return [x for x in sums if x.count == x.operands[0].groups.size]


def several(x: Node) -> bool:
    """Return whether there is more than one rank in a group."""
    return bool(x.groups.size > 1)


def sums_several(x: Node) -> bool:
    """Return whether x sums (no maximum) over more than one rank."""
    return adds(x) and several(x)


def swap(
    *kinds: Kind,
    numerics: RuleNumerics,
    factor: Factor = Factor.PRIMITIVE,
    where: Holds = several,
    of_sum: bool = False,
) -> Callable[[Build], Swap]:
    """Declare a rule: the kinds of its sites, their condition."""
    return lambda build: Swap(build, kinds, numerics, factor, where, of_sum)


# ---------------------------------------------------------------------------------- one primitive for another
@swap(Kind.ALL_REDUCE, numerics=RuleNumerics.REORDERED, where=sums_several)
def reduce_scatter_all_gather(x: Node, operand: Node) -> Node:
    """AR(x) -> head(AG(RS(x padded to a multiple of the group)))."""
    share = like(x, Kind.REDUCE_SCATTER, padded(operand, x.groups.size))
    return head(like(x, Kind.ALL_GATHER, share), x.size)


@swap(Kind.ALL_REDUCE, numerics=RuleNumerics.REORDERED, where=sums_several)
def gather_and_sum(x: Node, operand: Node) -> Node:
    """AR(x) -> sum(AG(x)): every member adds up everybody's values itself.

    g times the memory.
    """
    return make_sum(like(x, Kind.ALL_GATHER, operand), x.groups.size)


@swap(Kind.REDUCE_SCATTER, numerics=RuleNumerics.REORDERED, where=sums_several)
def exchange_and_sum(x: Node, operand: Node) -> Node:
    """RS(x) -> sum(A2A(x)): every member gets everybody's block for it and adds them up itself."""
    return make_sum(like(x, Kind.ALL_TO_ALL, operand), x.groups.size)


@swap(Kind.ALL_GATHER, numerics=RuleNumerics.SAME)
def exchange_of_copies(x: Node, operand: Node) -> Node:
    """AG(x) -> A2A(g copies of x): the same bytes arrive, through a primitive that may cost less to start.

    g times the payload.
    """
    return like(x, Kind.ALL_TO_ALL, make_view([operand], maps.copies(operand.size, x.groups.size)))


# ------------------------------------------------------------------------------------------- and the ways back
@swap(Kind.ALL_GATHER, numerics=RuleNumerics.REORDERED, of_sum=True)
def all_reduce_of_gather(x: Node, operand: Node) -> Node:
    """sum(AG(x)) -> AR(x): let the library add up."""
    return like(x, Kind.ALL_REDUCE, operand)


@swap(Kind.ALL_TO_ALL, numerics=RuleNumerics.REORDERED, of_sum=True)
def reduce_scatter_of_sum(x: Node, operand: Node) -> Node:
    """sum(A2A(x)) -> RS(x): let the library add up."""
    return like(x, Kind.REDUCE_SCATTER, operand)


def _sends_copies(x: Node) -> bool:
    (operand,) = x.operands
    if operand.kind is not Kind.VIEW or not several(x):
        return False
    folded = map_algebra.fold(operand.map, x.groups.size)
    return folded is not None and folded[0] == "equal"


@swap(Kind.ALL_TO_ALL, numerics=RuleNumerics.SAME, where=_sends_copies)
def gather_of_copies(x: Node, operand: Node) -> Node:
    """A2A(g equal blocks) -> AG(one block): who sends everybody the same may as well gather.

    The operand is a layout whose g blocks are equal on every rank.
    """
    return like(x, Kind.ALL_GATHER, head(operand, operand.size // x.groups.size))


# ---------------------------------------------------------------------------------------------- less, or freer
def _local(x: Node, operand: Node) -> Node | None:
    try:
        return without_talk(x, operand)
    except Rejected:
        return None


@swap(
    *(Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.ALL_GATHER, Kind.ALL_TO_ALL),
    numerics=RuleNumerics.REORDERED,  # g times x instead of g terms added
    where=lambda x: _local(x, x.operands[0]) is not None,
)
def equal_copies(x: Node, operand: Node) -> Node:
    """AR(x) -> g x; RS(x) -> g V_mine x; AG, A2A -> a layout: members that hold the same values need not talk.

    The operand, or for AG and A2A all that the operand is a view of, provably holds the same value on all members
    of each group; the layout that takes its place is not too ragged. A maximum is not multiplied.
    """
    return _local(x, operand) or rebuild(x, [operand])


@swap(*COLLECTIVES, numerics=RuleNumerics.SAME, factor=Factor.BOUNDARY, where=lambda x: bool(x.label.graph))
def drop_boundary(x: Node, operand: Node) -> Node:
    """C(x) of a later graph -> C(x) of no graph: collectives of different graphs may then run in one.

    Collectives that differed in their graph only become one.
    """
    return relabel(x, operand, replace(x.label, graph=""))


SWAPS = {name: made for name, made in list(vars().items()) if isinstance(made, Swap)}
