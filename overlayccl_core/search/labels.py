"""Labels of collectives: which graph each is kept in, and what is in flight together. They compute nothing.

Where ranks compile, only the graph counts: in it nothing comes before anything but what it reads.
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
    """True if boundaries keep collectives apart."""
    return any(x.label.graph for x in program.collectives)


def has_labels(program: Program) -> bool:
    """True if its collectives are kept apart, or some are issued before others."""
    return any(x.label.graph or is_early(x) for x in program.collectives)


def is_early(x: Node) -> bool:
    """True for a collective that is in flight before others of its depth are waited for."""
    return x.label.issue is IssueOrder.EARLY


def may_overlap(program: Program) -> bool:
    """True if the order of calls decides what is in flight together, and no compiler chooses.

    That is two collectives of which neither waits for the other through the model, or one and what the model has
    left over.
    """
    if program.problem.case.uniform:
        return False
    if program.problem.leaves_work:
        return True
    depths = Depths(program.problem, program.outputs)
    levels = [depths.node(x) for x in program.collectives]
    return len(set(levels)) < len(levels)


def without_boundaries(program: Program) -> tuple[Step, ...]:
    """Steps that let all collectives be in one graph."""
    classes = site_classes(program, COLLECTIVES).items()
    return tuple((DROP_BOUNDARY, name, "") for name, sites in classes if any(x.label.graph for x in sites))


def early_issues(program: Program) -> tuple[Step, ...]:
    """Steps that each let a class be in flight together, if any could be; any of them may be taken."""
    if not may_overlap(program):
        return ()
    return tuple((EARLY_ISSUE, name, "") for name in site_classes(program, COLLECTIVES))
