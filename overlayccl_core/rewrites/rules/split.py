"""C(x) -> the results of C on equal columns of x, side by side: the way back from `merge`.

Knob: into how many parts, `2`, `4`, `8`, or the largest part, `25MiB`; parts are as equal as elements allow.
Side conditions: the operand is longer than the parts are many (in each of the blocks that go different ways).
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.program.nodes import Node, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import (
    DoesNotApply,
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

PARTS = ("2", "4", "8")
CAPS = ("25MiB",)
MOST_PARTS = 1024  # of one value: a knob may come from any source, and each part is a collective
_KNOB = re.compile(r"(?P<parts>[1-9]\d*)|(?P<mib>[1-9]\d*)MiB")


def knobs(program: Program, sites: Sequence[Node]) -> tuple[str, ...]:
    """Halves, quarters, eighths, and the cap where some value is larger."""
    return tuple(k for k in (*PARTS, *CAPS) if any(_parts(x, k) > 1 for x in sites))


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    parts = {x: n for x in sites if (n := _parts(x, knob)) > 1}
    if (most := max(parts.values(), default=0)) > MOST_PARTS:
        raise DoesNotApply(f"a value is cut into at most {MOST_PARTS} parts (got {most})")
    return each(parts, lambda x, operand: _in_parts(x, operand, parts[x]))


def _parts(x: Node, knob: str) -> int:
    """The number of parts to cut into; 1: no cut."""
    match = _KNOB.fullmatch(knob)
    if not match:
        raise DoesNotApply(f"parts are a number as 4 or a cap as 25MiB (got {knob!r})")
    (operand,) = x.operands
    wanted = int(match["parts"] or -(-operand.bytes // (int(match["mib"] or 1) * MIB)))
    return wanted if wanted <= operand.size // blocks_in(x) else 1


def _in_parts(x: Node, operand: Node, parts: int) -> Node:
    rows = blocks_in(x)
    width = operand.size // rows
    cuts = [width * i // parts for i in range(parts + 1)]
    made = [rebuild(x, [columns(operand, rows, a, b - a)]) for a, b in pairwise(cuts)]
    return side_by_side(made, blocks_out(x))
