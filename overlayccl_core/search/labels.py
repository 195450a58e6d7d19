"""Labels of collectives: their graph and their order of issue. They compute nothing.

On ranks that compile, only the graph counts: within it, only data dependences order anything.
"""

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import Depths
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.classes import site_classes

DROP_BOUNDARY = "drop_boundary"
EARLY_ISSUE = "early_issue"
LABEL_RULES = (DROP_BOUNDARY, EARLY_ISSUE)


def has_graphs(program: Program) -> bool:
    """Return whether boundaries keep collectives apart."""
    return any(x.label.graph for x in program.collectives)


def has_labels(program: Program) -> bool:
    """Return whether collectives are kept apart, or some are issued before others."""
    return any(x.label.graph or is_early(x) for x in program.collectives)


def is_early(x: Node) -> bool:
    """Return whether a collective is in flight before others of its depth are waited for."""
    return x.label.issue is IssueOrder.EARLY


def may_overlap(program: Program) -> bool:
    """Return whether the order of calls decides the overlap, and no compiler chooses.

    This needs two collectives without a dependence through the model, or one and leftover work of the model.
    """
    if program.problem.case.uniform:
        return False
    if program.problem.leaves_work:
        return True
    depths = Depths(program.problem, program.outputs)
    levels = [depths.node(x) for x in program.collectives]
    return len(set(levels)) < len(levels)


def without_boundaries(program: Program) -> tuple[Step, ...]:
    """Return steps to let all collectives be in one graph."""
    classes = site_classes(program, COLLECTIVES).items()
    return tuple((DROP_BOUNDARY, name, "") for name, sites in classes if any(x.label.graph for x in sites))


def early_issues(program: Program) -> tuple[Step, ...]:
    """Return a step for each class, to put it in flight together, if any could be; any may be taken."""
    if not may_overlap(program):
        return ()
    return tuple((EARLY_ISSUE, name, "") for name in site_classes(program, COLLECTIVES))
