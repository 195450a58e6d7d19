"""What a rewrite rule is, and the small pieces that rules are built of.

A rule is one file of `rewrites/rules/`. It rewrites ALL sites of a class at once, so neither the number of steps
nor the space of Programs grows with ranks, layers, microbatches or tensors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Protocol

import numpy as np

from overlayccl_core import loader
from overlayccl_core.program import maps
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import REDUCING, Kind, Reduction
from overlayccl_core.program.maps import Ints
from overlayccl_core.program.nodes import Node, Replacement, make_collective, make_view
from overlayccl_core.program.program import Program

FOLDER = "rewrites/rules"

Replacements = Mapping[Node, Replacement]


class DoesNotApply(ValueError):
    """A step that does nothing at this Program; the message names rule and class, and says why."""


class RuleNumerics(StrEnum):
    """What a rule does to rounding, from harmless to harmful."""

    SAME = "same"  # the same terms in the same order
    REORDERED = "reordered"  # sums in another order
    LOSSY = "lossy"  # fewer bits


class Rule(Protocol):
    """What a file in rewrites/rules/ defines.

    KINDS: the collectives whose classes it looks at. NUMERICS: the worst that it does.
    knobs(program, sites): the settings worth trying at these sites; `no_knobs` where there is nothing to turn.
    rewrite(program, sites, knob): what replaces which node, as `substitute` takes it; {} or DoesNotApply
    (with the reason) where it does not apply. Keys may be other nodes than the sites. Must be deterministic.
    """

    KINDS: tuple[Kind, ...]
    NUMERICS: RuleNumerics
    knobs: Callable[[Program, Sequence[Node]], tuple[str, ...]]
    rewrite: Callable[[Program, Sequence[Node], str], Replacements]


def no_knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """The `knobs` of a rule that has nothing to turn."""
    return ("",)


def rule_names() -> tuple[str, ...]:
    """All rules, sorted."""
    return loader.names(FOLDER)


@cache
def rule(name: str) -> Rule:
    """The rule of that name; ValueError naming those there are. The folder is read once for each name."""
    return loader.plug_in(Rule, FOLDER, name)


# ------------------------------------------------------------------------------------------------ replacing
def each(sites: Iterable[Node], build: Callable[[Node, Node], Node]) -> dict[Node, Replacement]:
    """Every site x by build(x, the new form of its operand)."""

    def replacement(x: Node) -> Replacement:
        return lambda go: build(x, go(x.operands[0]))

    return {x: replacement(x) for x in sites}


def like(x: Node, kind: Kind, operand: Node, groups: Groups | None = None) -> Node:
    """A collective of another kind with the label and (unless given) the groups of x; sums where it reduces."""
    return make_collective(kind, operand, x.groups if groups is None else groups, x.label)


def sums_over_members(program: Program, sites: Iterable[Node]) -> dict[Node, Node]:
    """sum -> the collective whose blocks, one from each member, it adds up; groups of one rank are left out."""
    known = {x for x in sites if x.groups.size > 1}
    return {
        total: x
        for total in program.nodes
        if total.kind is Kind.SUM and (x := total.operands[0]) in known and total.count == x.groups.size
    }


def by_library(sums: Mapping[Node, Node], kind: Kind) -> dict[Node, Replacement]:
    """Every sum over members by one collective of that kind on the operand of the one it reads."""

    def replacement(x: Node) -> Replacement:
        return lambda go: like(x, kind, go(x.operands[0]))

    return {total: replacement(x) for total, x in sums.items()}


def adds(x: Node) -> bool:
    """True for an all_reduce or reduce_scatter that sums (not a maximum)."""
    return x.kind in REDUCING and x.attr.reduction is Reduction.SUM


# --------------------------------------------------------------------------------------------------- layouts
def head(x: Node, size: int) -> Node:
    """The first `size` elements of x, or x with zeros behind it."""
    if size <= x.size:
        return make_view([x], maps.window(0, size))
    return make_view([x], maps.Map(1, size, [0, x.size], [0, maps.ZERO]))


def padded(x: Node, parts: int) -> Node:
    """x with zeros behind it, up to a multiple of `parts`."""
    return head(x, -(-x.size // parts) * parts)


def interleaved(x: Node, outer: int, inner: int) -> Node:
    """x seen as (outer, inner, block) -> (inner, outer, block)."""
    return make_view([x], maps.permuted((outer, inner, x.size // (outer * inner)), (1, 0, 2)))


def columns(x: Node, rows: int, start: int, width: int) -> Node:
    """x seen as (rows, columns): `width` columns of every row from `start` on."""
    return make_view([x], maps.sliced((start,), width, rows, x.size // rows, 1))


def side_by_side(values: Sequence[Node], rows: int) -> Node:
    """Values seen as (rows, columns), joined along the columns."""
    return make_view(values, maps.concatenated(tuple((rows, x.size // rows) for x in values), 1))


def blocks_in(x: Node) -> int:
    """Rows of a collective's operand that go different ways: what is joined or cut is joined or cut in each."""
    return x.groups.size if x.kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL) else 1


def blocks_out(x: Node) -> int:
    """Rows of a collective's result that come from different members."""
    return x.groups.size if x.kind in (Kind.ALL_GATHER, Kind.ALL_TO_ALL) else 1


# ---------------------------------------------------------------------------------------------------- groups
def members(groups: Groups) -> Ints:
    """int[ranks, g]: the members of each rank's group, in member order."""
    return np.asarray(groups.array[groups.group], np.int64)
