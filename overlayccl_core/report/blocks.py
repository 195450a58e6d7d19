"""Blocks of a section of the report, and the format of its numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from overlayccl_core.asking.conversation import MadeBy
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.tables.table import Table as TableOfRun

Row = TypeVar("Row")
NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A file behind figures, below the run's folder: its table (or other content) and the rule that wrote it."""

    table: str
    rule: str
    file: str


Sources = frozenset[Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A paragraph.

    Attributes:
        sources: Sources of the figures, here and in all other blocks; empty without figures of a run.
    """

    text: str
    tone: str = "plain"  # plain, missing (for a part that was not made), good or warning
    kind: str = "text"
    sources: Sources = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBlock:
    """Rows under headers."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()  # columns aligned to the right
    strong: frozenset[int] = frozenset()  # rows of the choice
    folded: bool = False  # shown on demand, under its title
    kind: str = "table"
    sources: Sources = frozenset()

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.headers)]
        if wrong:
            raise ValueError(f"table {self.title!r}: {len(self.headers)} headers and a row {wrong[0]}")


def table_of(
    title: str, rows: Iterable[Row], columns: Mapping[str, Callable[[Row], str]], **look: Any
) -> TableBlock:
    """Return a table with a row for each of `rows`. columns: header -> its cell; look: other fields."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return TableBlock(title=title, headers=tuple(columns), rows=cells, **look)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A model's result in a few words: a large figure, its reference, and the facts behind it."""

    title: str
    lead: str  # text to read before the figure
    figure: str
    unit: str
    lines: tuple[str, ...]
    tone: str = "good"  # good (faster beyond noise), plain (as good as known ways), warning (anything less)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards side by side."""

    cards: tuple[Card, ...]
    kind: str = "cards"
    sources: Sources = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Two drawings of the same data, as SVG (`charts.figure`). title: the subject; caption: how to read it."""

    title: str
    caption: str
    wide: str
    narrow: str
    kind: str = "figure"
    sources: Sources = frozenset()


INTERVALS = (
    "Intervals. Those of measured times and of ratios are 95%. From 3 launches on they are over launches; "
    "those of fewer are over their rounds and allow for 20% between launches; of too few rounds there is "
    "none. That of a price goes from the 10% to the 90% point of the model's errors on Programs that it had "
    "not seen, so 8 true times of 10 lie in it. The time of a pass is a trimmed mean over rounds, that of a "
    "step a median. A ratio is that of the medians of paired rounds or steps, so it is not quite the "
    "quotient of the two times. Repeat error: by how much noise alone makes a time wrong, in the "
    "median."
)
"""Meaning of the brackets behind figures."""

SCRIPTED = (
    "What is marked scripted was answered by a script or a person: nothing about models follows from it."
)

Block = Text | TableBlock | Cards | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """A titled part of the page; `anchor` is unique on it. folded: shown on demand, under its title."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    folded: bool = True


def with_sources(sources: Iterable[Source], blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks, with these sources if they have none yet."""
    known = frozenset(sources)
    return [block if block.sources else replace(block, sources=known) for block in blocks]


def page_sources(*tables: TableOfRun) -> Sources:
    """Return the sources of a page in the folder of these tables, made of them alone."""
    return frozenset(Source(one.name, one.rule, f"{one.name}.parquet") for one in tables)


def only(folder: str, blocks: Iterable[Block]) -> list[Block]:
    """Return blocks of one Problem or model (`problems/tp_mlp`), without files of others among their sources."""
    siblings = f"{folder.rpartition('/')[0]}/"

    def mine(source: Source) -> bool:
        return not source.file.startswith(siblings) or source.file.startswith(f"{folder}/")

    return [replace(block, sources=frozenset(filter(mine, block.sources))) for block in blocks]


def scripted(made_by: Iterable[str | None]) -> list[Block]:
    """Return a warning if anything but a model answered. made_by: sources of answers, as in table `calls`."""
    return [Text(text=SCRIPTED, tone="warning")] if MadeBy.SCRIPTED in made_by else []


def missing(what: str, how: str) -> Text:
    """Return a text on a missing part of this run, and how to make it."""
    return Text(text=f"{what} {how}", tone="missing")


def ms(us: float | None) -> str:
    """Format a time: `151 ms`."""
    if us is None:
        return NOTHING
    return f"{figures(us)} us" if us < 1e3 else f"{figures(us / 1e3)} ms"


def spread(us: Ratio | None) -> str:
    """Format a time with its interval: `151 ms (149..155)`."""
    if us is None or us.low is None or us.high is None:
        return ms(us.value if us else None)
    unit = 1 if us.value < 1e3 else 1e3  # as `ms` writes the value
    return f"{ms(us.value)} ({figures(us.low / unit)}..{figures(us.high / unit)})"


def price(us: float | None, low: float | None, high: float | None) -> str:
    """Format the model's price with its range: `4.2 ms (3.9..5.1)`."""
    return ms(us) if us is None else spread(Ratio(value=us, low=low, high=high))


def times(ratio: Ratio | None) -> str:
    """Format a ratio: `6.21x (5.90..6.60)`, or with a note on too few rounds."""
    return NOTHING if ratio is None else ratio.text(TIMES)


def worded(ratio: Ratio | None) -> str:
    """Format a ratio with its word: `6.21x (5.90..6.60), faster`; no word without an interval."""
    return times(ratio) if ratio is None or ratio.low is None else f"{times(ratio)}, {ratio.word}"


def columns_ratio(row: Mapping[str, Any], name: str) -> Ratio | None:
    """Return the ratio in three columns of a table; None if unknown, or of something over itself."""
    value, low, high = (row[name], row[f"{name}_low"], row[f"{name}_high"])
    if value is None or {value, low, high} <= {1.0, None}:
        return None
    return Ratio(value=value, low=low, high=high)


def percent(part: float | None, nothing: str = NOTHING) -> str:
    """Format a share: `3.2%`."""
    return nothing if part is None else f"{100 * part:.1f}%"


def correlation(value: float | None, nothing: str = NOTHING) -> str:
    """Format a rank correlation: `0.987`."""
    return nothing if value is None else f"{value:.3f}"


def bandwidth(gbps: float | None, nothing: str = NOTHING) -> str:
    """Format a bandwidth in GB/s: `0.0492`, `<0.001`."""
    if gbps is None:
        return nothing
    return "<0.001" if gbps < 0.001 else figures(gbps)


def mebibytes(size: int | None) -> str:
    """Format a size: `12.5 MiB`."""
    return NOTHING if size is None else f"{figures(size / MIB)} MiB"


def count(number: int, one: str, many: str = "") -> str:
    """Format a count: `1 launch`, `5 launches`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Format a duration: `48 s`, `2 min 05 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 90 else f"{whole // 60:,} min {whole % 60:02d} s"
