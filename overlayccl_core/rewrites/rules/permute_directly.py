"""P(P(x)) -> P(x): what was handed on from rank to rank comes straight from where it started.

So the steps of a ring no longer wait for each other. The rule rewrites every permute with only permutes between
itself and one of the class, at any depth.

Side conditions: the permutes between have the same label.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Ints
from overlayccl_core.program.nodes import Node, Replacement, make_permute
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Factor, Replacements, RuleNumerics, no_knobs

KINDS = (Kind.COLLECTIVE_PERMUTE,)
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.PRIMITIVE
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    known = set(sites)
    paths = {x: _path(x) for x in program.collectives if x.kind is Kind.COLLECTIVE_PERMUTE}
    return {x: _direct(x, first, sources) for x, (first, sources) in paths.items() if first in known - {x}}


def _path(x: Node) -> tuple[Node, Ints]:
    """(the first permute on the way to x, the origin rank of each rank's value)."""
    first, sources = x, np.array(x.sources)
    while (below := first.operands[0]).kind is Kind.COLLECTIVE_PERMUTE and below.label == x.label:
        sources = np.where(sources >= 0, np.array(below.sources)[sources], maps.ZERO)
        first = below
    return first, sources


def _direct(x: Node, first: Node, sources: Ints) -> Replacement:
    return lambda go: make_permute(go(first.operands[0]), sources.tolist(), x.label)
