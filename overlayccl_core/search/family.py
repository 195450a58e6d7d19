"""Families: Programs with a common error of the cost model.

A family is the set of its collectives (kind, whether one call does several, groups and their size, depth in
collectives), its labels and its lossiness. The cutting of values into buckets does not count.
"""

from overlayccl_core.program.calls import Call, call_name
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.numerics import NumericsClass, loses
from overlayccl_core.program.payload import group_size
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.classes import class_of
from overlayccl_core.search.labels import has_graphs, orders

SEVERAL_GRAPHS = "several graphs"
INFEASIBLE = "infeasible"


def family_of(program: Program, *, feasible: bool) -> str:
    """Return a readable name: `all_to_all:world4:1 + all_gather:world4:2, several graphs, lossy`.

    Infeasible Programs have families of their own, so they hide no runnable one.
    """
    case = program.problem.case
    kinds = sorted({_collective(call, class_of(case, x), x) for call in program.calls for x in call})
    words = [" + ".join(name for _, name in kinds) or "local"]
    if has_graphs(program):
        words.append(SEVERAL_GRAPHS)
    words += [order.words for order in orders(program)]
    if is_lossy(program):
        words.append(NumericsClass.LOSSY.value)
    return ", ".join(words if feasible else [*words, INFEASIBLE])


def is_lossy(program: Program) -> bool:
    """Return whether it adds, scales or casts in a narrower dtype than its outputs', or in 16 bits."""
    return loses(program.outputs.values())


def _collective(call: Call, site_class: str, x: Node) -> tuple[int, str]:
    _, groups, depth = site_class.split(":")
    return x.depth, f"{call_name(call)}:{groups}{group_size(x)}:{depth}"
