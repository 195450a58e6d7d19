"""The step driver: emitted modules and the model's segments in one training step, by one rule on every rank.

A segment runs as soon as all that it needs is written; one that needs nothing runs when its product is first
read. Of the modules that can go on, the first in the list is resumed: backward before forward, then the order
of the workload's sites. So the modules' own order of reads and writes is the only schedule there is, and all
ranks, which hold the same modules and segments, do the same in the same order.

A value is dropped once the last segment that needs it has run, or the module that reads it has it.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import port_text
from overlayccl_core.training.segments import Name, StepSegment, Tensor, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteModule:
    """One emitted generator at a site of the step, with the shapes of what it writes."""

    site: str
    generator: Generator[Any, Any, None]
    read: Any
    shapes: Mapping[Port, tuple[int, ...]]


class StuckStep(RuntimeError):
    """No module can go on and no segment can run: the modules' orders wait for each other."""


def run_step(modules: Sequence[SiteModule], segments: Iterable[StepSegment]) -> None:
    """Run one step to its end. `modules` in order of priority; generators must be fresh.

    StuckStep names what each module waits for.
    """
    step = _Step(segments)
    waiting = [_Waiting(module) for module in modules]
    for one in waiting:
        step.resume(one)
    while any(one.wants is not None for one in waiting):
        able = next((one for one in waiting if one.wants is not None and step.provide(one.wants)), None)
        if able is None:
            raise StuckStep(
                "no module can go on: "
                + "; ".join(
                    f"{one.module.site} reads {port_text(one.wants[1])}" for one in waiting if one.wants
                )
                + ": one of the orders asks for a value before it has written what that value needs"
            )
        step.resume(able)
    step.finish()


class _Waiting:
    """A module and the value that it waits for (None: it has ended)."""

    __slots__ = ("module", "wants")

    def __init__(self, module: SiteModule) -> None:
        self.module = module
        self.wants: Value | None = None


class _Step:
    """Values and segments of a step on their way."""

    def __init__(self, segments: Iterable[StepSegment]) -> None:
        self.segments: dict[Name, StepSegment] = {s.name: s for s in segments}
        self.values: dict[Value, Tensor] = {}
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
        self.uses_left = {value: len(users) for value, users in self.users.items()}

    def resume(self, waiting: _Waiting) -> None:
        """Answer a module's Read and take its Writes until its next Read or its end."""
        module = waiting.module
        generator = module.generator
        wanted, waiting.wants = waiting.wants, None
        try:  # no name for the answer here: it would be held while segments run
            event = generator.send(None if wanted is None else self.values.pop(wanted).reshape(-1))
            while event.__class__ is not module.read:
                self.write((module.site, event.port), event.value.reshape(module.shapes[event.port]))
                event = next(generator)
        except StopIteration:
            return
        waiting.wants = (module.site, event.port)

    def write(self, value: Value, tensor: Tensor) -> None:
        """An output is there: run what it made possible, at once."""
        self.written.add(value)
        if self.uses_left.get(value):
            self.values[value] = tensor
        for segment in self.users.get(value, ()):
            self.run_if_ready(segment)

    def provide(self, value: Value) -> bool:
        """Make an input exist, if that is possible now."""
        return value in self.values or (value in self.giver and self.fire(self.giver[value]))

    def fire(self, segment: StepSegment) -> bool:
        """Run a segment, and first what it comes after; False if something is not written yet."""
        if segment.name in self.done:
            return True
        if not all(self.fire(self.segments[name]) for name in segment.after):
            return False
        if segment.name not in self.done and all(value in self.written for value in segment.needs):
            self.run(segment)
        return segment.name in self.done

    def run_if_ready(self, segment: StepSegment) -> None:
        ready = all(v in self.written for v in segment.needs) and all(n in self.done for n in segment.after)
        if ready and segment.name not in self.done:
            self.run(segment)

    def run(self, segment: StepSegment) -> None:
        self.done.add(segment.name)
        given = segment.work({value: self.values[value] for value in segment.needs})
        for value in segment.needs:
            self.uses_left[value] -= 1
            if not self.uses_left[value]:
                del self.values[value]
        for value in segment.gives:
            self.values[value] = given[value].detach()
        for follower in self.followers.get(segment.name, ()):
            if follower.needs:  # one without needs waits for its reader
                self.run_if_ready(follower)

    def finish(self) -> None:
        """Run what nobody asked for; all segments have run then."""
        for segment in self.segments.values():
            if not self.fire(segment):
                missing = [_text(value) for value in segment.needs if value not in self.written]
                raise StuckStep(
                    f"the step ends before segment {port_text(segment.name)} could run: "
                    f"{', '.join(missing) or 'what it comes after'} is not written by any module"
                )


def _text(value: Value) -> str:
    return f"{value[0]} {port_text(value[1])}"
