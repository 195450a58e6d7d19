"""What a section of the report is made of, and how numbers are written in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.charts import Figure

NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph. tone: plain, missing (a part that was not made), good or warning."""

    text: str
    tone: str = "plain"
    kind: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under headers; `numeric` columns are set to the right. A strong row is what was chosen.

    folded: shown on demand, under its title.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    folded: bool = False
    kind: str = "table"

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.headers)]
        if wrong:
            raise ValueError(f"table {self.title!r}: {len(self.headers)} headers and a row {wrong[0]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A model's result in a few words: one large figure, what it is relative to, and what stands behind it."""

    title: str
    figure: str
    unit: str
    lines: tuple[str, ...]
    tone: str = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards side by side."""

    cards: tuple[Card, ...]
    kind: str = "cards"


INTERVALS = (
    "Intervals. Those of measured times and of ratios (such as times as fast as developer) are 95%, from launches "
    "and rounds drawn again. That of a price goes from the 10% to the 90% point of the model's errors on Programs "
    "that it had not seen, so 8 true times of 10 lie in it. The time of a pass is a trimmed mean over rounds, that "
    "of a step a median. A ratio is that of the medians of paired rounds or steps, so it is not quite the quotient "
    "of the two times. Repeat error: how far two measurements of the same thing differ, in the median."
)
"""What the brackets behind figures mean."""

Block = Text | Table | Cards | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of the page; `anchor` is unique on it."""

    anchor: str
    title: str
    blocks: Sequence[Block]


def missing(what: str, how: str) -> Text:
    """A part that this run does not have, and what makes it."""
    return Text(text=f"{what} {how}", tone="missing")


def ms(us: float | None) -> str:
    """`151 ms`."""
    if us is None:
        return NOTHING
    return f"{figures(us)} us" if us < 1e3 else f"{figures(us / 1e3)} ms"


def spread(us: Ratio | None) -> str:
    """`151 ms (149 to 155)`."""
    if us is None:
        return NOTHING
    unit = 1 if us.value < 1e3 else 1e3  # as `ms` writes the value
    return f"{ms(us.value)} ({figures(us.low / unit)} to {figures(us.high / unit)})"


def price(us: float | None, low: float | None, high: float | None) -> str:
    """`4.2 ms (3.9 to 5.1)`: what the model says, with its range."""
    return (
        ms(us) if us is None or low is None or high is None else spread(Ratio(value=us, low=low, high=high))
    )


def times(ratio: Ratio | None) -> str:
    """`6.21x (5.9 to 6.6)`."""
    return NOTHING if ratio is None else f"{ratio.value:.2f}{TIMES} ({ratio.low:.2f} to {ratio.high:.2f})"


def columns_ratio(value: float | None, low: float | None, high: float | None) -> Ratio | None:
    """A ratio from the three columns of a table."""
    return None if value is None or low is None or high is None else Ratio(value=value, low=low, high=high)


def percent(part: float | None) -> str:
    """`3.2%`."""
    return NOTHING if part is None else f"{100 * part:.1f}%"


def mebibytes(size: int | None) -> str:
    """`12.5 MiB`."""
    return NOTHING if size is None else f"{figures(size / MIB)} MiB"


def count(number: int, one: str, many: str = "") -> str:
    """`1 launch`, `5 launches`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """`48 s`, `2 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 90 else f"{whole // 60:,} min {whole % 60:02d} s"
