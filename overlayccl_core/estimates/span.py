"""A quantity not yet known: at least this and at most that."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From the least to the most; for a known quantity both are the same."""

    least: float = 0.0
    most: float = 0.0

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"the least must not be above the most (got {self.least} and {self.most})")

    def __add__(self, other: "Span | float") -> "Span":
        also = other if isinstance(other, Span) else Span(other, other)
        return Span(self.least + also.least, self.most + also.most)

    def __mul__(self, factor: float) -> "Span":
        return Span(self.least * factor, self.most * factor)

    def text(self, write: Callable[[float], str]) -> str:
        """Return `12` or `12..40`."""
        least, most = write(self.least), write(self.most)
        return least if least == most else f"{least}..{most}"


def total(spans: Iterable[Span]) -> Span:
    """Return their sum."""
    together = Span()
    for span in spans:
        together = together + span
    return together


NOTHING = Span()
