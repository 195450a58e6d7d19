"""Progress of a piece of work, for a listener: as numbers if it takes them, else as a line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressStep:
    """`done` of `total` units of a phase. left_s: seconds to its end, if known better than from its pace so far."""

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
    """Return whether a listener takes steps as they are: it has a method `step`."""
    return hasattr(progress, "step")


def tell(progress: Callable[[str], None], step: ProgressStep) -> None:
    """Report a step: as it is to a listener with a method `step`, else in a line."""
    listener: Any = getattr(progress, "step", progress)
    listener(step if takes_steps(progress) else str(step))


def part_of(progress: Callable[[str], None], name: str) -> Callable[[str], None]:
    """Return a listener for one batch of a piece of work: steps come as lines, under the name of the batch.

    Its rounds and its time left are not those of the whole.
    """
    return lambda line: progress(f"{name}: {line}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOfMany:
    """A listener for one of many pieces of work with equally many rounds: these count among those of all.

    Attributes:
        before: Rounds of the pieces before it.
        total: Rounds of all pieces.
    """

    progress: Callable[[str], None]
    name: str
    before: int
    total: int

    def __call__(self, line: str) -> None:
        self.progress(f"{self.name}: {line}")

    def step(self, step: ProgressStep) -> None:
        """Report a step of the piece; other units than rounds are not told."""
        if step.unit != "round":
            return
        done, left = self.before + step.done, step.total - step.done
        left_s = step.left_s * (self.total - done) / left if step.left_s is not None and left else None
        tell(
            self.progress,
            ProgressStep(phase=self.name, unit=step.unit, done=done, total=self.total, left_s=left_s),
        )
