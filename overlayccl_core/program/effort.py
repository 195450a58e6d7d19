"""The work allowed for tracing one strategy besides its own steps: making values, working out layouts.

Fuel (scopes.py) counts a source's steps, but one call may move a million stretches of elements. So values and
layouts pay here when they are made, in runs of a layout: a unit is the work of one run. Outside of tracing nothing
pays. A result kept from an earlier trace is paid for all the same, so a source ends at the same place everywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.maps import Map

MAX_EFFORT = 4_000_000
PER_PORT = 4096  # more for each input and output: a model of many layers has longer strategies
VALUE = 128  # cost of a value, whatever it is
LAYOUT = 256  # cost of working out a layout, however simple
OPERAND = 32  # cost of each operand of a layout
READ_RUNS = 8  # reading so many runs of a layout costs as much as making one


@dataclass(slots=True)
class _Left:
    """The effort left to one trace. paid: layouts of plain values, each worked out once."""

    effort: int
    paid: set[bytes] = field(default_factory=set)


_active: ContextVar[_Left | None] = ContextVar("effort left", default=None)


@contextmanager
def allowed(ports: int) -> Iterator[None]:
    """Set the effort for tracing inside this context; ports: number of inputs and outputs of its Problem."""
    token = _active.set(_Left(MAX_EFFORT + PER_PORT * ports))
    try:
        yield
    finally:
        _active.reset(token)


def spend(effort: int) -> None:
    """Take effort away before the work; Rejected when it is used up."""
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
    """Pay for a layout of some operands; read: the layouts among them to read through."""
    left = _active.get()
    if left is None:
        return
    spend(LAYOUT + OPERAND * operands)
    if read or made.digest not in left.paid:
        spend(made.runs + sum(m.runs for m in read) // READ_RUNS)
    if not read:
        left.paid.add(made.digest)
