"""C(x) -> the results of C on equal columns of x, side by side: the way back from `merge`.

Knob: into how many parts, `2`, `4`, `8`, or the largest part, `25MiB`; parts are as equal as elements allow. Or
`joints`: where the operand joins different values. No search tries it: it begins at ways that join nothing, too.
Side conditions: the operand is longer than the parts are many (in each of the blocks that go different ways), and a
class comes to a bounded number of parts: a search that counts calls takes any number of them in one call for one,
and cut them over and over.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.maps import ZERO
from overlayccl_core.program.nodes import Node, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import (
    DoesNotApply,
    Factor,
    Replacements,
    RuleNumerics,
    blocks_in,
    blocks_out,
    columns,
    each,
    side_by_side,
)

KINDS = COLLECTIVES
NUMERICS = RuleNumerics.SAME
FACTOR = Factor.MERGE

JOINTS = "joints"
PARTS = ("2", "4", "8")
CAPS = ("25MiB",)
MOST_PARTS = 1024  # of one value: a knob may come from any source, and each part is a collective
MOST_OF_AN_OUTPUT = 64  # parts of a class for each output of the Program, where that is more
_KNOB = re.compile(r"(?P<parts>[1-9]\d*)|(?P<mib>[1-9]\d*)MiB")


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """Halves, quarters, eighths, and the cap where some value is larger."""
    return tuple(k for k in (*PARTS, *CAPS) if any(_parts(x, k) > 1 for x in sites))


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    cuts = {x: _cuts(x, knob) for x in sites}
    if (most := max(len(of) - 1 for of in cuts.values())) > MOST_PARTS:
        raise DoesNotApply(f"a value is cut into at most {MOST_PARTS} parts (got {most})")
    together, bound = sum(len(of) - 1 for of in cuts.values()), MOST_OF_AN_OUTPUT * len(program.outputs)
    if together > max(bound, MOST_PARTS):
        raise DoesNotApply(f"a class is cut into at most {max(bound, MOST_PARTS)} parts (got {together})")
    wanted = (x for x, of in cuts.items() if len(of) > 2)
    return each(wanted, lambda x, operand: _in_parts(x, operand, cuts[x]))


def _cuts(x: Node, knob: str) -> list[int]:
    """The columns from 0 to the width between which the parts lie."""
    (operand,) = x.operands
    width = operand.size // blocks_in(x)
    if knob == JOINTS:
        return [*_joints(operand, width), width]
    parts = _parts(x, knob)
    return [width * i // parts for i in range(parts + 1)]


def _joints(operand: Node, width: int) -> list[int]:
    """The columns at which another value begins, by the first block of rank 0; zeros go with what is before."""
    if operand.kind is not Kind.VIEW:
        return [0]
    ends = np.cumsum([y.size for y in operand.operands])
    found, last = [0], None
    runs = zip(operand.map.keys, operand.map.sources, operand.map.lengths, strict=True)
    for start, source, length in ((int(k), int(s), int(n)) for k, s, n in runs if s != ZERO):
        for at in [source, *(int(end) for end in ends if source < end < source + length)]:
            value = int(np.searchsorted(ends, at, side="right"))
            if last not in (None, value) and start + at - source < width:
                found.append(start + at - source)
            last = value
    return found


def _parts(x: Node, knob: str) -> int:
    """The number of parts to cut into; 1: no cut."""
    match = _KNOB.fullmatch(knob)
    if not match:
        raise DoesNotApply(f"parts are a number as 4, {JOINTS}, or a cap as 25MiB (got {knob!r})")
    (operand,) = x.operands
    wanted = int(match["parts"] or -(-operand.bytes // (int(match["mib"] or 1) * MIB)))
    return wanted if wanted <= operand.size // blocks_in(x) else 1


def _in_parts(x: Node, operand: Node, cuts: Sequence[int]) -> Node:
    rows = blocks_in(x)
    made = [rebuild(x, [columns(operand, rows, a, b - a)]) for a, b in pairwise(cuts)]
    return side_by_side(made, blocks_out(x))
