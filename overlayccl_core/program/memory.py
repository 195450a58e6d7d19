"""Exact peak memory of a Program on one rank, from its steps and the segments' timeline."""

from overlayccl_core.program import attention
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import LOCAL_ACTIONS, Action, Step, lower
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import Form
from overlayccl_core.program.segments import RunSegment, walk


def peak_bytes(program: Program) -> int:
    """Return the largest number of bytes taken at once by a Program's own values on a rank.

    Inputs belong to the model and do not count; an output lives until the last segment that needs it has run;
    aliases and values made in place take nothing. A collective started on a copy of its operand has this copy as
    its result, and keeps its operand until its wait. Scratch memory of a running step counts, a library's own
    memory does not. If ranks compile, it is the peak of the module's own order, each collective done before the
    next step: the compiler's peak is unknown.

    Raises:
        IllegalOrder: The Program cannot be walked.
    """
    steps = lower(program)
    base = _storage(steps)
    released = _released(program)
    made: dict[Node, int] = {}
    last: dict[Node, int] = {}
    end_of_event: dict[int, int] = {step.event: i for i, step in enumerate(steps)}
    for i, step in enumerate(steps):
        for node in step.nodes:
            owner = base[node]
            made.setdefault(owner, i)
            if step.action is Action.WRITE and step.port in released:
                last[owner] = max(last.get(owner, 0), end_of_event[released[step.port]])
        for x in (*step.nodes, *step.operands) if step.action in _USES_OPERANDS else step.nodes:
            last[base[x]] = max(last.get(base[x], 0), i)
    change = [0] * (len(steps) + 1)
    for x, first in made.items():
        if x.kind is not Kind.INPUT:
            change[first] += x.bytes
            change[last[x] + 1] -= x.bytes
    peak = live = 0
    for step, delta in zip(steps, change, strict=False):
        live += delta
        peak = max(peak, live + _meanwhile(step))
    return peak


def _meanwhile(step: Step) -> int:
    """Scratch bytes of a running step, besides operands and result."""
    x = step.node
    if step.plan is not None and step.plan.joins:  # several operands laid end to end first
        assert x is not None
        return sum(y.bytes for y in x.operands)
    if x is not None and step.action is Action.ROWWISE and x.row.operation.form is Form.ONE_HOT:
        return x.size  # a mask, one byte an element
    if x is not None and step.action is Action.ROWWISE and x.row.operation.form is Form.HEADS:
        of = x.row.heads_of([y.size for y in x.operands])
        held = attention.OPERATIONS[x.row.name].held
        return max(sum(of.bytes(one, x.dtype.bytes) for one in together) for together in held) - x.bytes
    return 0


_USES_OPERANDS = (*LOCAL_ACTIONS, Action.START, Action.WAIT)


def _storage(steps: tuple[Step, ...]) -> dict[Node, Node]:
    """node -> the node owning its storage."""
    base: dict[Node, Node] = {}
    for step in steps:
        for x in step.nodes:
            if x in base:
                continue
            shares = x in step.in_place or (step.plan is not None and step.plan.is_alias)
            operand = x.operands[_aliased(step)] if shares else x
            base[x] = base.get(operand, operand) if shares else x
    return base


def _aliased(step: Step) -> int:
    return step.plan.operand if step.plan is not None and step.plan.is_alias else 0


def _released(program: Program) -> dict[object, int]:
    """output port -> index of the event that runs its last segment."""
    released: dict[object, int] = {}
    for index, event in walk(program):
        if isinstance(event, RunSegment):
            for port in event.segment.needs:
                released[port] = index
    return released
