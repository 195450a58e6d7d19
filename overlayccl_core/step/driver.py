"""The step driver: interleaves emitted modules and the model's segments in a training step, the same on every rank.

A segment runs as soon as all its needs are written; a segment without needs runs when its product is first read.
Of the modules that can go on, the first in the list does: backward before forward, then the workload's order of
sites. A module can read a value that exists or can be made. It can write a value if a segment can run with it and
what else the module writes (or none needs it): otherwise a module with all inputs from the start (shards of
parameters) would hold all its outputs. Other writes wait until no other module can go on. So the modules' own order
of reads and writes is the only schedule, and all ranks, with the same modules and segments, do the same in the same
order.

Left-over segments (`StepSegment.left_over`) run when a module reports a call in flight, at the latest before the
next segment.

Of values it asks `reshape` and `detach` only: those of the price in the step (price.py) are no tensors.
A value is dropped after the last segment needing it has run, or when a module has read it.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import port_text
from overlayccl_core.step.segment import Name, StepSegment, Value

MEANWHILE = "meanwhile"  # attribute of an emitted module: a function to call while a collective is in flight


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteModule:
    """An emitted generator at a site of the step, with the shapes of its outputs."""

    site: str
    generator: Generator[Any, Any, None]
    read: Any
    shapes: Mapping[Port, tuple[int, ...]]
    module: Any = None  # its `meanwhile` is set for the step, if it has one


class StuckStep(RuntimeError):
    """No module can go on and no segment can run: the modules' orders wait for each other."""


def run_step(modules: Sequence[SiteModule], segments: Iterable[StepSegment]) -> None:
    """Run one step to its end.

    Args:
        modules: In order of priority, with new generators.

    Raises:
        StuckStep: No module can go on; the message names the awaited values.
    """
    step = _Step(segments)
    asks = [one.module for one in modules if hasattr(one.module, MEANWHILE)]
    before = [getattr(module, MEANWHILE) for module in asks]
    try:
        for module in asks:
            setattr(module, MEANWHILE, step.do_what_is_left)
        step.run_with(modules)
    finally:  # a module outlives the step, and must not hold it
        for module, nothing in zip(asks, before, strict=True):
            setattr(module, MEANWHILE, nothing)


class _Waiting:
    """A module and its pending event (None: the module has ended)."""

    __slots__ = ("event", "module")

    def __init__(self, module: SiteModule) -> None:
        self.module = module
        self.event: Any = next(module.generator, None)

    @property
    def reads(self) -> bool:
        """Whether the pending event is a read."""
        return self.event.__class__ is self.module.read

    @property
    def value(self) -> Value:
        """The value to read or to write."""
        return self.module.site, self.event.port


class _Step:
    """The values and segments of a running step."""

    def __init__(self, segments: Iterable[StepSegment]) -> None:
        self.segments: dict[Name, StepSegment] = {s.name: s for s in segments}
        self.values: dict[Value, Any] = {}
        self.written: set[Value] = set()
        self.done: set[Name] = set()
        self.giver: dict[Value, StepSegment] = {}
        self.users: dict[Value, list[StepSegment]] = {}
        self.followers: dict[Name, list[StepSegment]] = {}
        for s in self.segments.values():
            for value in s.gives:
                self.giver[value] = s
            for value in s.needs:
                self.users.setdefault(value, []).append(s)
            for name in s.after:
                self.followers.setdefault(name, []).append(s)
        self.left: list[StepSegment] = []
        self.uses_left = {value: len(users) for value, users in self.users.items()}

    def run_with(self, modules: Sequence[SiteModule]) -> None:
        """Run the step to its end."""
        waiting = [_Waiting(module) for module in modules]
        while waiting := [one for one in waiting if one.event is not None]:
            able = next((one for one in waiting if self.helps(one)), None)
            able = able or next((one for one in waiting if not one.reads), None)
            if able is None:
                raise StuckStep(
                    "no module can go on: "
                    + "; ".join(f"{one.module.site} reads {port_text(one.event.port)}" for one in waiting)
                    + ": one of the orders asks for a value before it has written what that value needs"
                )
            self.take(able)
        self.finish()

    def helps(self, waiting: _Waiting) -> bool:
        """Whether a module's input exists (made now, if possible), or its write is of use."""
        return self.provide(waiting.value) if waiting.reads else self.is_of_use(waiting.value)

    def take(self, waiting: _Waiting) -> None:
        """Answer a module's Read or take its Write, then resume it up to its next event."""
        module, value = waiting.module, waiting.value
        if waiting.reads:
            try:  # no name for the answer: it would be held while the module goes on
                waiting.event = module.generator.send(self.values.pop(value).reshape(-1))
            except StopIteration:
                waiting.event = None
        else:
            self.write(value, waiting.event.value.reshape(module.shapes[value[1]]))
            waiting.event = None  # lets the value go
            waiting.event = next(module.generator, None)

    def is_of_use(self, value: Value) -> bool:
        """Whether a segment can run with what the value's site writes, or no segment needs the value."""
        users = self.users.get(value, ())
        return not users or any(self.is_ready(segment, value[0]) for segment in users)

    def write(self, value: Value, tensor: Any) -> None:
        """Store an output and run the segments it makes ready."""
        self.written.add(value)
        if self.uses_left.get(value):
            self.values[value] = tensor
        for segment in self.users.get(value, ()):
            self.run_if_ready(segment)

    def provide(self, value: Value) -> bool:
        """Make an input exist, if possible now; return whether it does."""
        return value in self.values or (value in self.giver and self.fire(self.giver[value]))

    def fire(self, segment: StepSegment) -> bool:
        """Run a segment after its predecessors; False if a needed value is not written yet."""
        if segment.name in self.done:
            return True
        if not all(self.fire(self.segments[name]) for name in segment.after):
            return False
        if segment.name not in self.done and all(value in self.written for value in segment.needs):
            self.run(segment)
        return segment.name in self.done

    def is_ready(self, segment: StepSegment, site: str | None = None) -> bool:
        """Whether a segment can run, perhaps once all that it needs of a site is written."""
        written = all(v in self.written or v[0] == site for v in segment.needs)
        return written and all(name in self.done for name in segment.after)

    def run_if_ready(self, segment: StepSegment) -> None:
        if segment.name not in self.done and self.is_ready(segment):
            self.run(segment)

    def do_what_is_left(self) -> None:
        """Run the left-over segments."""
        while self.left:
            self.run_if_ready(self.left.pop())

    def run(self, segment: StepSegment) -> None:
        if not segment.left_over:
            self.do_what_is_left()
        self.done.add(segment.name)
        given = segment.work({value: self.values[value] for value in segment.needs})
        for value in segment.needs:
            self.uses_left[value] -= 1
            if not self.uses_left[value]:
                del self.values[value]
        for value in segment.gives:
            self.values[value] = given[value].detach()
        for follower in self.followers.get(segment.name, ()):
            if follower.left_over:
                self.left.append(follower)
            elif follower.needs:  # one without needs waits for its reader
                self.run_if_ready(follower)

    def finish(self) -> None:
        """Run all remaining segments; StuckStep if one cannot run."""
        for segment in self.segments.values():
            if not self.fire(segment):
                missing = [f"{v[0]} {port_text(v[1])}" for v in segment.needs if v not in self.written]
                raise StuckStep(
                    f"the step ends before segment {port_text(segment.name)} could run: "
                    f"{', '.join(missing) or 'what it comes after'} is not written by any module"
                )
