"""The protocol of a rewrite rule, and small pieces for building rules.

A rule is one file of `rewrites/rules/`, or a function of the table in `rules/swaps.py`. It rewrites ALL sites of a
class at once, so neither the number of steps nor the space of Programs grows with ranks, layers, microbatches or
tensors.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import Protocol

import numpy as np

from overlayccl_core import loader
from overlayccl_core.configuration.fields import hint
from overlayccl_core.program import maps
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import REDUCING, IssueOrder, Kind, Reduction
from overlayccl_core.program.maps import Ints
from overlayccl_core.program.nodes import Node, Replacement, make_collective, make_view, relabel
from overlayccl_core.program.program import Program

FOLDER = "rewrites/rules"
TABLE = "swaps"  # the file there with many rules

Replacements = Mapping[Node, Replacement]


class DoesNotApply(ValueError):
    """A step does nothing at this Program; the message names rule, class and reason."""


class RuleNumerics(StrEnum):
    """The effect of a rule on rounding, from harmless to harmful."""

    SAME = "same"  # the same terms in the same order
    REORDERED = "reordered"  # sums in another order
    LOSSY = "lossy"  # fewer bits


class Factor(StrEnum):
    """What a rule changes: the factors by which a gain is split (`rewrites/chains.py`)."""

    SCHEDULE = "schedule"  # the order in which calls start, and what is in flight meanwhile
    BOUNDARY = "boundary"  # where a graph of calls is cut
    MERGE = "merge"  # calls joined into one, or one cut into several
    PRIMITIVE = "primitive"  # another kind or family of collectives, or another group of ranks
    LAYOUT = "layout"  # what of a value is sent, in which places
    DTYPE = "dtype"  # the type on the wire


class RewriteRule(Protocol):
    """The definitions of a file in rewrites/rules/, and of a row of `SWAPS`.

    Attributes:
        knobs: (program, sites) -> the settings worth trying at these sites; `no_knobs` for a rule without settings.
        rewrite: (program, sites, knob) -> replacements for `substitute`, deterministic. {} or DoesNotApply (with
            the reason) if the rule does not apply. Keys may be other nodes than the sites.
    """

    KINDS: tuple[Kind, ...]  # the kinds of collectives that can be sites
    NUMERICS: RuleNumerics  # the worst effect on rounding
    FACTOR: Factor  # what it changes
    knobs: Callable[[Program, Sequence[Node]], tuple[str, ...]]
    rewrite: Callable[[Program, Sequence[Node], str], Replacements]


def no_knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """Return the one, empty setting of a rule without knobs."""
    return ("",)


def rule_names() -> tuple[str, ...]:
    """Return the names of all rules, sorted."""
    return tuple(sorted({*loader.names(FOLDER), *_swaps()} - {TABLE}))


@cache
def rule(name: str) -> RewriteRule:
    """Return the rule of that name.

    Raises:
        ValueError: There is no such rule; the message names the nearest, or all.
    """
    if name not in rule_names():
        raise ValueError(f"there is no {name!r} among the rewrite rules: {hint(name, rule_names())}")
    return _swaps().get(name) or loader.plug_in(RewriteRule, FOLDER, name)


def _swaps() -> Mapping[str, RewriteRule]:
    """The rules of the table, loaded like all other rules: only stages that rewrite depend on them."""
    swaps: Mapping[str, RewriteRule] = loader.load(FOLDER, TABLE).SWAPS
    return swaps


# ------------------------------------------------------------------------------------------------ replacing
def each(sites: Iterable[Node], build: Callable[[Node, Node], Node]) -> dict[Node, Replacement]:
    """Replace every site x by build(x, the new form of its operand)."""

    def replacement(x: Node) -> Replacement:
        return lambda go: build(x, go(x.operands[0]))

    return {x: replacement(x) for x in sites}


def issued(program: Program, sites: Iterable[Node], order: IssueOrder) -> dict[Node, Replacement]:
    """Give sites another order of issue. DoesNotApply if ranks compile: a graph has no order of calls."""
    if program.problem.case.uniform:
        raise DoesNotApply("ranks compile what they run, and in a graph the order of calls says nothing")

    def labelled(x: Node, operand: Node) -> Node:
        return relabel(x, operand, replace(x.label, issue=order))

    return each(sites, labelled)


def cut_apart(whole: Replacement, values: Sequence[Node], rows: int) -> dict[Node, Replacement]:
    """Replace values, all seen as (rows, columns), by their columns of `whole`, where they stand side by side."""

    def part(start: int, width: int) -> Replacement:
        return lambda go: columns(whole(go), rows, start, width)

    widths = [x.size // rows for x in values]
    starts = accumulate(widths, initial=0)
    return {x: part(start, width) for x, start, width in zip(values, starts, widths, strict=False)}


def like(x: Node, kind: Kind, operand: Node, groups: Groups | None = None) -> Node:
    """Make a collective of another kind with the label and (unless given) the groups of x; a reduction sums."""
    return make_collective(kind, operand, x.groups if groups is None else groups, x.label)


def adds(x: Node) -> bool:
    """Return whether x is an all_reduce or reduce_scatter with a sum (not a maximum)."""
    return x.kind in REDUCING and x.attr.reduction is Reduction.SUM


# --------------------------------------------------------------------------------------------------- layouts
def head(x: Node, size: int) -> Node:
    """Return the first `size` elements of x, or x padded with zeros."""
    if size <= x.size:
        return make_view([x], maps.window(0, size))
    return make_view([x], maps.Map(1, size, [0, x.size], [0, maps.ZERO]))


def padded(x: Node, parts: int) -> Node:
    """Pad x with zeros up to a multiple of `parts`."""
    return head(x, -(-x.size // parts) * parts)


def interleaved(x: Node, outer: int, inner: int) -> Node:
    """Transpose x, seen as (outer, inner, block), to (inner, outer, block)."""
    return make_view([x], maps.permuted((outer, inner, x.size // (outer * inner)), (1, 0, 2)))


def columns(x: Node, rows: int, start: int, width: int) -> Node:
    """Return `width` columns, from `start` on, of x seen as (rows, columns)."""
    return make_view([x], maps.sliced((start,), width, rows, x.size // rows, 1))


def side_by_side(values: Sequence[Node], rows: int) -> Node:
    """Join values, seen as (rows, columns), along the columns."""
    return make_view(values, maps.concatenated(tuple((rows, x.size // rows) for x in values), 1))


def blocks_in(x: Node) -> int:
    """Return the number of an operand's rows with different destinations: join or cut within each."""
    return x.groups.size if x.kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL) else 1


def blocks_out(x: Node) -> int:
    """Return the number of a result's rows from different members."""
    return x.groups.size if x.kind in (Kind.ALL_GATHER, Kind.ALL_TO_ALL) else 1


# ---------------------------------------------------------------------------------------------------- groups
def members(groups: Groups) -> Ints:
    """Return int[ranks, g]: the members of each rank's group, in member order."""
    return np.asarray(groups.array[groups.group], np.int64)
