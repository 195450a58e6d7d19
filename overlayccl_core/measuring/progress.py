"""How far a piece of work is, told to whoever listens: as numbers where that is wanted, else as a line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`done` of `total` units of a phase. left_s: seconds until its end, where the work itself knows them better
    than from how long it has taken so far."""

    phase: str
    unit: str = ""  # round, launch, ...; empty: nothing is counted (yet)
    done: int = 0
    total: int = 0
    left_s: float | None = None

    def __str__(self) -> str:
        if not self.unit:
            return self.phase
        left = f", {self.left_s:.0f} s left" if self.left_s is not None else ""
        return f"{self.phase}: {self.unit} {self.done} of {self.total}{left}"


def takes_steps(progress: Callable[[str], None]) -> bool:
    """Whether a listener takes steps as they are: it has a method `step`."""
    return hasattr(progress, "step")


def tell(progress: Callable[[str], None], step: Step) -> None:
    """Report a step: as it is to a listener that takes steps, else in a line."""
    listener: Any = getattr(progress, "step", progress)
    listener(step if takes_steps(progress) else str(step))


def part_of(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    """A listener for one of the batches of a piece of work: steps come as lines, under the name of the batch.

    Its rounds and what is left of it are not those of the whole.
    """
    return lambda line: progress(f"{name}: {line}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfMany:
    """A listener for one of many pieces of work that have equally many rounds: these count among those of all.

    before: rounds of the pieces before it; total: of all.
    """

    progress: Callable[[str], None]
    name: str
    before: int
    total: int

    def __call__(self, line: str) -> None:
        self.progress(f"{self.name}: {line}")

    def step(self, step: Step) -> None:
        """Of the piece; what counts something else than rounds is not told."""
        if step.unit != "round":
            return
        done, left = self.before + step.done, step.total - step.done
        left_s = step.left_s * (self.total - done) / left if step.left_s is not None and left else None
        tell(self.progress, Step(phase=self.name, unit=step.unit, done=done, total=self.total, left_s=left_s))
