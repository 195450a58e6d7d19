"""The objects of a trace: values with shapes, the strategy's io, and the recorder of its events."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from overlayccl_core.program import effort
from overlayccl_core.program.calls import bare
from overlayccl_core.program.case import count
from overlayccl_core.program.kinds import FLOATS, NO_LABEL, DType, Label, Rejected
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import Problem, port_text
from overlayccl_core.program.program import BOUNDARY, Event, Issue, Program, Read, Write

MAX_AXES = 32  # of a value


class Value:
    """A strategy's value: a node with a logical shape."""

    __slots__ = ("node", "shape")

    def __init__(self, node: Node, shape: tuple[int, ...]) -> None:
        effort.spend(effort.VALUE)
        check_axes(shape)
        if node.size != count(shape):
            raise Rejected(f"{node.size} elements do not fill the shape {shape}")
        self.node = node
        self.shape = shape

    @property
    def dtype(self) -> str:
        """Element type, as `cast` takes it."""
        return self.node.dtype.value

    def __bool__(self) -> bool:
        raise Rejected("a value's elements are not known while a strategy is traced: ask `x is None`")


class IO:
    """A strategy's only contact with its Problem. The order of its calls is the schedule."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder

    def read(self, name: str, *index: int) -> Value:
        """Read an input, once."""
        problem = self._recorder.problem
        port: Port = (name, *index)
        node = problem.input_node(port)
        self._recorder.record_read(port)
        return Value(node, problem.inputs[port].shape)

    def write(self, name: str, *index_and_value: int | Value) -> None:
        """Give an output its value, once."""
        value = index_and_value[-1] if index_and_value else None
        port: Port = (name, *(i for i in index_and_value[:-1] if not isinstance(i, Value)))
        if not isinstance(value, Value) or len(port) != len(index_and_value):
            raise Rejected(f"write {port_text(port)}: the last argument must be a value (got {value!r})")
        spec = self._recorder.problem.outputs.get(port)
        if spec is not None and value.shape != spec.shape:
            raise Rejected(f"{port_text(port)}: wrote shape {value.shape}, declared {spec.shape}: reshape it")
        self._recorder.events.append(Write(port, value.node))


class Recorder:
    """Records the events of one strategy at one Problem; `parameters`: the strategy's `p`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.parameters: Any = None
        self.events: list[Event] = []
        self._read: set[Port] = set()
        self._issued: set[Node] = set()
        self._graph = 0

    def record_read(self, port: Port) -> None:
        """Record a Read; an input is read once."""
        if port in self._read:
            raise Rejected(f"{port_text(port)} is read twice: keep the value of the first read")
        self._read.add(port)
        self.events.append(Read(port))

    def issue(self, made: Node) -> Node:
        """Record the Issue of a collective, as its constructor made it (it may stand below a scale)."""
        self.issue_call([made])
        return made

    def issue_call(self, made: Sequence[Node]) -> None:
        """Record the Issue of several collectives in one call, each as its constructor made it."""
        call = tuple(dict.fromkeys(map(bare, made)))
        if not self._issued.issuperset(call):
            self._issued.update(call)
            self.events.append(Issue(call))

    @property
    def label(self) -> Label:
        """The label of the current graph."""
        return Label(graph=f"g{self._graph}") if self._graph else NO_LABEL

    def boundary(self) -> None:
        """End the current graph."""
        effort.spend(effort.VALUE)
        self.events.append(BOUNDARY)
        self._graph += 1

    def finish(self) -> Program:
        """The Program; Rejected if an output is missing or wrong."""
        return Program(self.problem, self.events)


def check_axes(shape: Sequence[int]) -> None:
    """Raise Rejected for a shape of too many axes, before anything is computed of it."""
    if len(shape) > MAX_AXES:
        raise Rejected(f"a shape of {len(shape)} axes (limit {MAX_AXES}): reshape to fewer")


_active: ContextVar[Recorder] = ContextVar("active recorder")


def active() -> Recorder:
    """The recorder of the current trace."""
    try:
        return _active.get()
    except LookupError:
        raise RuntimeError("operations of the strategy language run inside trace() only") from None


@contextmanager
def recording(problem: Problem) -> Iterator[Recorder]:
    """Make a fresh recorder the active one."""
    recorder = Recorder(problem)
    token = _active.set(recorder)
    try:
        with effort.allowed(len(problem.inputs) + len(problem.outputs)):
            yield recorder
    finally:
        _active.reset(token)


def dtype_of(name: object) -> DType:
    """A dtype by name; Rejected unless it is floating point."""
    if name not in FLOATS:
        raise Rejected(f"dtype must be one of {[d.value for d in FLOATS]} (got {name!r})")
    return DType(name)  # type: ignore[arg-type]
