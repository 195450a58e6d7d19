"""What tracing one strategy may take besides its own steps: values that are made, layouts that are worked out.

Fuel (scopes.py) counts what a source does, which is little where one call moves a million stretches of elements. So
values and layouts pay here, where they are made, in runs of a layout: a unit is the work of one. Outside of tracing
nobody pays. What a process has kept from before is paid for all the same, so a source ends at the same place
everywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.maps import Map

MAX_EFFORT = 4_000_000
PER_PORT = 4096  # more for each input and output: a model of many layers has longer strategies
VALUE = 128  # what a value takes, whatever it is
LAYOUT = 256  # what working out a layout takes, however simple
OPERAND = 32  # what each operand of it takes
READ_RUNS = 8  # so many runs of a layout that it reads take as much as one that is made


@dataclass(slots=True)
class _Left:
    """What one trace has left. paid: layouts of plain values, each of which is worked out once."""

    effort: int
    paid: set[bytes] = field(default_factory=set)


_active: ContextVar[_Left | None] = ContextVar("effort left", default=None)


@contextmanager
def allowed(ports: int) -> Iterator[None]:
    """What is traced inside may take so much; ports: inputs and outputs of its Problem."""
    token = _active.set(_Left(MAX_EFFORT + PER_PORT * ports))
    try:
        yield
    finally:
        _active.reset(token)


def spend(effort: int) -> None:
    """Take effort away, before it is made; Rejected when it is used up."""
    left = _active.get()
    if left is None:
        return
    left.effort -= effort
    if left.effort < 0:
        raise Rejected(
            f"the strategy takes more than {MAX_EFFORT} units of work on values and layouts: make fewer values, and"
            " move longer stretches of consecutive elements"
        )


def spend_on_layout(made: Map, operands: int, read: Sequence[Map]) -> None:
    """The effort of a layout of some operands; read: those layouts among them that it reads through."""
    left = _active.get()
    if left is None:
        return
    spend(LAYOUT + OPERAND * operands)
    if read or made.digest not in left.paid:
        spend(made.runs + sum(m.runs for m in read) // READ_RUNS)
    if not read:
        left.paid.add(made.digest)
