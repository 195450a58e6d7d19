"""Site classes: names of collectives with the same meaning at every size.

`all_reduce:world:1` = kind : groups : collectives on the longest path from an input, the class's own included.
Groups are `world`, `node` (the ranks of each node), `across` (the ranks with the same place in their nodes) or
`other`. All layers and microbatches of a model are one class, for any N, M, L and shapes.
"""

from collections.abc import Collection

from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import Groups, contiguous, strided
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program


def site_classes(program: Program, kinds: Collection[Kind]) -> dict[str, list[Node]]:
    """Return class -> its collectives in the order of issue, for these kinds only."""
    classes: dict[str, list[Node]] = {}
    for x in program.collectives:
        if x.kind in kinds:
            classes.setdefault(class_of(program.problem.case, x), []).append(x)
    return classes


def class_of(case: Case, x: Node) -> str:
    """Return the class of a collective."""
    name = "other" if x.kind is Kind.COLLECTIVE_PERMUTE else group_name(case, x.groups)
    return f"{x.kind.value}:{name}:{x.depth}"


def group_name(case: Case, groups: Groups) -> str:
    """Return world, node, across or other. With one tier (or one rank a node) there is no node and no across."""
    if groups.is_world:
        return "world"
    if both := tiers(case):
        node, across = both
        return "node" if groups is node else "across" if groups is across else "other"
    return "other"


def tiers(case: Case) -> tuple[Groups, Groups] | None:
    """Return (the ranks of each node, the ranks with the same place in their nodes); None if there is one tier."""
    if not 1 < case.ranks_per_node < case.ranks:
        return None
    return contiguous(case.ranks, case.ranks_per_node), strided(case.ranks, case.ranks_per_node)
