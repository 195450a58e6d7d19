"""What commands print in a terminal of 80 columns."""

from collections.abc import Callable
from dataclasses import dataclass

COLUMNS = 80


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output as one line."""
        return " ".join(self.out.split())


Call = Callable[..., Done]


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > COLUMNS]
