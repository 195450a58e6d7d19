"""sum(A2A(x)) -> RS(x): let the library add up.

Side conditions: the sum is over exactly the blocks that came from the members, of more than one rank.
Numerics: reordered.
"""

from collections.abc import Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, by_library, no_knobs, sums_over_members

KINDS = (Kind.ALL_TO_ALL,)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Replace the sums; the exchange goes where nothing else reads it."""
    return by_library(sums_over_members(program, sites), Kind.REDUCE_SCATTER)
