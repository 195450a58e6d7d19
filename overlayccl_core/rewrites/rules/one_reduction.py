"""sum(V(AR a, AR b, ..)) -> AR(sum(V(a, b, ..))): add up what is here, then reduce once.

V is one layout for all ranks; the all_reduces may stand under exact ratios. Side conditions: all operands of the
sum are all_reduces of the class that sum, over the same groups, under the same label, read by nothing else; the
sum is smaller than they are together. Numerics: reordered.
"""

from collections.abc import Callable, Sequence

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, Replacement, make_scale, make_sum, make_view
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.rule import Replacements, RuleNumerics, adds, like, no_knobs

KINDS = (Kind.ALL_REDUCE,)
NUMERICS = RuleNumerics.REORDERED
knobs = no_knobs


def rewrite(program: Program, sites: Sequence[Node], knob: str) -> Replacements:
    """Replace the sums."""
    users, known, written = program.users(), set(sites), set(program.outputs.values())

    def lone(x: Node) -> bool:
        return x not in written and len(users[x]) == 1

    return {x: _reduced_once(x) for x in program.nodes if x.kind is Kind.SUM and _saves(x, known, lone)}


def _saves(total: Node, sites: set[Node], lone: Callable[[Node], bool]) -> bool:
    """True if the sum adds up results of all_reduces only, all alike, that nothing else wants."""
    (joined,) = total.operands
    layout = [joined] if joined.kind is Kind.VIEW else []
    if layout and joined.map.rows > 1:
        return False
    parts = joined.operands if layout else (joined,)
    reductions = [_without_scale(part) for part in parts]
    if not reductions or not all(x in sites and adds(x) for x in reductions):
        return False
    alike = {(x.groups, x.label) for x in reductions}
    return (
        len(alike) == 1
        and total.size < sum(x.size for x in reductions)
        and all(lone(x) for x in (*layout, *parts, *reductions))
    )


def _without_scale(x: Node) -> Node:
    return x.operands[0] if x.kind is Kind.SCALE else x


def _reduced_once(total: Node) -> Replacement:
    (joined,) = total.operands
    parts = joined.operands if joined.kind is Kind.VIEW else (joined,)

    def here(part: Node, go: Callable[[Node], Node]) -> Node:
        """What a part adds up, before it is reduced."""
        operand = go(_without_scale(part).operands[0])
        return make_scale(operand, part.ratio) if part.kind is Kind.SCALE else operand

    def build(go: Callable[[Node], Node]) -> Node:
        values = [here(part, go) for part in parts]
        whole = make_view(values, joined.map) if joined.kind is Kind.VIEW else values[0]
        return like(_without_scale(parts[0]), Kind.ALL_REDUCE, make_sum(whole, total.count))

    return build
