"""Lowering: a Program as straight-line steps, in the order of the emitted module.

One list, three readers: the emitter prints the steps, the cost model counts them, peak memory walks them. Scales
run at the birth of their values (scaling.py). A local value is made right before its first use. A collective
starts asynchronously; the wait stands before the first use of its value, at a boundary, or at the end. Attention of
values that are there is made before a wait, however late it is used: it hides the call, and lets keys go. A sum of
two whole values adds them as they are; other sums add up the parts of one buffer.

If ranks compile what they run (a `uniform` Case), a graph keeps data dependence only, not the module's order, and
nothing waits before the end of a graph. So no step waits there, none has collectives in flight, and
`run_order.as_run` finds the calls that run together.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.program.calls import Call
from overlayccl_core.program.kinds import IssueOrder, Kind
from overlayccl_core.program.nodes import Node, Port, topological
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Boundary, Event, Issue, Program, Read, Write
from overlayccl_core.program.rowwise import Form
from overlayccl_core.program.scaling import scaled_at_birth
from overlayccl_core.program.segments import RunSegment, walk
from overlayccl_core.program.view_plan import Layout, Piece, ViewPlan, view_plan


class Action(StrEnum):
    """The kind of a step."""

    READ = "read"
    COPY = "copy"
    SUM = "sum"
    SCALE = "scale"
    CAST = "cast"
    ROWWISE = "rowwise"
    START = "start"
    WAIT = "wait"
    WRITE = "write"
    BOUNDARY = "boundary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement of the emitted module.

    Attributes:
        nodes: The step's values: one, or none at a boundary; a START or WAIT has all values of its call.
        in_place: Values that take over their operand's storage. A START first copies the operands of its other
            values, if the library overwrites operands.
    """

    action: Action
    event: int  # index of the Program's event behind the step
    nodes: tuple[Node, ...] = ()
    port: Port | None = None
    plan: ViewPlan | None = None  # plan of a view (COPY)
    addends: tuple[Node, ...] = ()  # the two values added by a SUM without a buffer
    in_flight: int = 0  # calls outstanding before the step
    in_place: tuple[Node, ...] = ()
    frees: tuple[Node, ...] = ()  # values not needed afterwards

    @property
    def node(self) -> Node | None:
        """The step's value; of a call with several, the first."""
        return self.nodes[0] if self.nodes else None

    @property
    def operands(self) -> tuple[Node, ...]:
        """The operands of its values."""
        return _operands(self)


_LOCAL = {
    Kind.VIEW: Action.COPY,
    Kind.SUM: Action.SUM,
    Kind.SCALE: Action.SCALE,
    Kind.CAST: Action.CAST,
    Kind.ROWWISE: Action.ROWWISE,
}


def lower(program: Program) -> tuple[Step, ...]:
    """Return the steps of a Program (made once, kept with it)."""
    if "steps" not in program.facts:
        program.facts["steps"] = _lower(program)
    return program.facts["steps"]  # type: ignore[no-any-return]


def overlaps(program: Program) -> bool:
    """True if a collective can be in flight while the model computes: a segment, or left-over work.

    A segment runs at the read of what it gives, or at the last write that it needs. Always False if ranks compile:
    the compiler decides what runs together, the same for all orders of calls.
    """
    computing = {i for i, one in walk(program) if isinstance(one, RunSegment) and not one.segment.left_over}
    return any(
        (step.action in (Action.READ, Action.WRITE) and step.in_flight and step.event in computing)
        or lets_work(program.problem, step)
        for step in lower(program)
    )


def lets_work(problem: Problem, step: Step) -> bool:
    """True if the model may do left-over work before this step: it waits for a call that may be in flight."""
    waits = step.action is Action.WAIT and problem.leaves_work
    return waits and step.nodes[0].label.issue is not IssueOrder.AS_WRITTEN


def _lower(program: Program) -> tuple[Step, ...]:
    events = scaled_at_birth(program)
    lowering = _Lowering(program.problem.case.uniform, _attentions(events))
    for index, event in enumerate(events):
        lowering.event = index
        match event:
            case Read(port):
                node = program.problem.input_node(port)
                lowering.made.add(node)
                lowering.add(Action.READ, (node,), port=port)
            case Issue(call):
                lowering.start(call)
            case Write(port, node):
                lowering.use(node)
                lowering.add(Action.WRITE, (node,), port=port)
            case Boundary():
                lowering.wait_for_all()
                lowering.add(Action.BOUNDARY)
    lowering.wait_for_all()
    return _with_storage(_without_joined(lowering.steps), uniform=lowering.uniform)


@dataclass(slots=True)
class _Draft:
    """A Step before its storage is known; a plain object, because one is made for every step."""

    action: Action
    event: int
    nodes: tuple[Node, ...]
    port: Port | None
    plan: ViewPlan | None
    in_flight: int
    addends: tuple[Node, ...] = ()


def _operands(step: Step | _Draft) -> tuple[Node, ...]:
    return step.addends or tuple(y for x in step.nodes for y in x.operands)


def _attentions(events: Iterable[Event]) -> list[Node]:
    """The operations of attention behind the events, operands first."""
    used = [x for event in events if isinstance(event, Issue) for x in event.call]
    used += [event.node for event in events if isinstance(event, Write)]
    return [x for x in topological(used) if x.kind is Kind.ROWWISE and x.row.operation.form is Form.HEADS]


class _Lowering:
    def __init__(self, uniform: bool, attentions: list[Node]) -> None:
        self.uniform = uniform
        self.attentions = attentions  # not made yet
        self.steps: list[_Draft] = []
        self.event = 0
        self.made: set[Node] = set()
        self.pending: dict[Node, Call] = {}
        self.in_flight = 0

    def add(self, action: Action, nodes: tuple[Node, ...] = (), port: Port | None = None) -> None:
        plan = view_plan(nodes[0], uniform=self.uniform) if action is Action.COPY else None
        self.steps.append(_Draft(action, self.event, nodes, port, plan, self.in_flight))

    def wait_for(self, node: Node) -> None:
        if node in self.pending:
            self.attend_meanwhile()
            call = self.pending[node]
            self.add(Action.WAIT, call)
            self.in_flight -= 1
            for x in call:
                del self.pending[x]

    def wait_for_all(self) -> None:
        for node in list(self.pending):  # one wait is for all values of its call
            self.wait_for(node)

    def attend_meanwhile(self) -> None:
        """Make the attention that waits for nothing."""
        for x in self.attentions:
            below = topological([x], self.made)
            there = all(y.kind in _LOCAL and self.pending.keys().isdisjoint(y.operands) for y in below)
            if there:
                self.make(x)
        self.attentions = [x for x in self.attentions if x not in self.made]

    def use(self, node: Node) -> None:
        """Make a node's value and wait for it."""
        self.make(node)
        self.wait_for(node)

    def make(self, node: Node) -> None:
        """Make a node's value from started collectives; it may be one of them."""
        if node in self.made:
            return
        for x in topological([node], self.made):
            for y in x.operands:
                self.wait_for(y)
            if x not in self.made:  # before the wait, perhaps
                self.add(_LOCAL[x.kind], (x,))
                self.made.add(x)

    def start(self, call: Call) -> None:
        """Start a call; its values stay in flight (unless uniform)."""
        for x in call:
            for y in x.operands:
                self.use(y)
        self.add(Action.START, call)
        self.made.update(call)
        if not self.uniform:
            self.in_flight += 1
            self.pending.update(dict.fromkeys(call, call))


LOCAL_ACTIONS = tuple(_LOCAL.values())
_MAKES = (*LOCAL_ACTIONS, Action.START)


def _without_joined(steps: list[_Draft]) -> list[_Draft]:
    """The steps without buffers used only to hold the two addends of one sum."""
    uses = Counter(y for step in steps for y in (_operands(step) if step.action in _MAKES else step.nodes))
    sums = {step.nodes[0].operands[0]: step for step in steps if step.action is Action.SUM}
    kept = []
    for step in steps:
        added = sums.get(step.nodes[0]) if step.plan is not None else None
        if added and added.nodes[0].count == 2 and uses[step.nodes[0]] == 1 and _are_two_wholes(step.plan):
            added.addends = step.nodes[0].operands
        else:
            kept.append(step)
    return kept


def _are_two_wholes(plan: ViewPlan | None) -> bool:
    """True if a view is two whole operands of one size, one behind the other."""
    if plan is None or plan.layout is not Layout.PIECES or len(plan.sizes) != 2 or len(set(plan.sizes)) != 1:
        return False
    whole = tuple(Piece(operand, 0, plan.sizes[0]) for operand in range(2))
    return plan.pieces in ((whole,), (whole[::-1],))


def _with_storage(steps: list[_Draft], *, uniform: bool) -> tuple[Step, ...]:
    """Fill in `in_place` and `frees` from the storage of each value."""
    last = _last_uses(steps)
    frees: dict[int, list[Node]] = {}
    for x, i in last.items():
        frees.setdefault(i, []).append(x)
    storage = _Storage(last, uniform=uniform)
    return tuple(
        Step(
            action=step.action,
            event=step.event,
            nodes=step.nodes,
            port=step.port,
            plan=step.plan,
            addends=step.addends,
            in_flight=step.in_flight,
            in_place=storage.takes_over(i, step),
            frees=tuple(frees.get(i, ())),
        )
        for i, step in enumerate(steps)
    )


def _last_uses(steps: list[_Draft]) -> dict[Node, int]:
    """node -> index of the last step naming it."""
    last: dict[Node, int] = {}
    for i, step in enumerate(steps):
        named = (*step.nodes, *_operands(step)) if step.action in _MAKES else step.nodes
        last.update(dict.fromkeys(named, i))
    return last


class _Storage:
    """Tracks the values with a storage of their own, shared with nothing else."""

    def __init__(self, last: dict[Node, int], *, uniform: bool) -> None:
        self.last = last
        self.uniform = uniform
        self.owned: set[Node] = set()  # values of own storage: no alias, not written
        self.in_use: dict[Node, Node] = {}  # collective in flight -> its operand

    def takes_over(self, index: int, step: _Draft) -> tuple[Node, ...]:
        """Record a step; return its results that may live in their operand's storage."""
        in_place = []
        for x in step.nodes:
            if step.action is Action.SCALE or _overwrites(x, step.action):
                y = x.operands[0]
                if y in self.owned and self.last[y] == index and y not in self.in_use.values():
                    in_place.append(x)
            elif step.action is Action.START and not self.uniform:
                self.in_use[x] = x.operands[0]
            elif step.action is Action.WAIT:
                self.in_use.pop(x, None)
            elif step.action is Action.WRITE:
                self.owned.discard(x)
            if step.plan is not None and step.plan.is_alias:
                self.owned.difference_update(x.operands)
            elif step.action in _MAKES:
                self.owned.add(x)
        return tuple(in_place)


def _overwrites(x: Node, action: Action) -> bool:
    """True if the result may replace the first operand in place."""
    if action is Action.ROWWISE:
        return x.row.operation.form is Form.EACH and x.operands[0].size == x.size
    return action is Action.START and x.kind is Kind.ALL_REDUCE
