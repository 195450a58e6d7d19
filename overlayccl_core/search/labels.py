"""Labels of collectives: their graph and their order of issue. They compute nothing.

On ranks that compile, only the graph counts: within it, only data dependences order anything.
"""

from overlayccl_core.program.kinds import COLLECTIVES, IssueOrder
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import Depths
from overlayccl_core.rewrites.apply import Step
from overlayccl_core.rewrites.classes import site_classes

DROP_BOUNDARY = "drop_boundary"
OTHER_ORDERS = (("early_issue", ""), ("in_flight", "2"), ("in_flight", "4"), ("in_flight", "all"))
ORDER_RULES = ("early_issue", "in_flight")
LABEL_RULES = (DROP_BOUNDARY, *ORDER_RULES)


def has_graphs(program: Program) -> bool:
    """Return whether boundaries keep collectives apart."""
    return any(x.label.graph for x in program.collectives)


def has_labels(program: Program) -> bool:
    """Return whether collectives are kept apart, or some are issued in another order than as written."""
    return has_graphs(program) or bool(orders(program))


def orders(program: Program) -> list[IssueOrder]:
    """Return the orders of issue in its labels, other than as written."""
    labels = {x.label.issue for x in program.collectives}
    return [order for order in IssueOrder if order in labels - {IssueOrder.AS_WRITTEN}]


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


def other_orders(program: Program) -> tuple[tuple[Step, ...], ...]:
    """Return, for each other order of issue, a step for each class; any may be taken. None if nothing overlaps."""
    if not may_overlap(program):
        return ()
    classes = site_classes(program, COLLECTIVES)
    return tuple(tuple((rule, name, knob) for name in classes) for rule, knob in OTHER_ORDERS)
