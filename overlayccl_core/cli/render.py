"""Tables for people."""

import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from typing import Any

import polars as pl
from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from overlayccl_core import catalog
from overlayccl_core.cli.one_strategy import YOURS, StrategyLine
from overlayccl_core.costmodel.features import Term
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.gates.bench import is_below
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.kinds import printable
from overlayccl_core.program.library import Role
from overlayccl_core.report import blocks
from overlayccl_core.tables.summary import Validity

WIDE = 160  # columns, if the output is no terminal
NARROW = 120  # terminals below this get fewer columns
NAME_WIDTH, NARROW_NAME, NARROW_WORD = 28, 20, 10
NOTHING = "-"
percent, correlation, bandwidth = (
    partial(form, nothing=NOTHING) for form in (blocks.percent, blocks.correlation, blocks.bandwidth)
)
SAME_LEGEND = "a = b: one Program."
LEGEND = (
    "x developer: how many times as fast, with its 95% interval. *: hand_bundled, calls joined into one. "
    f"{SAME_LEGEND}"
)
CASES_LEGEND = (
    "Times are of one pass: all exchanges of the Case once, in the bench, by which was chosen; what is "
    "deployed was timed again since. predicted: in brackets the range of 8 true times of 10 (10-90%). "
    "measured: a trimmed mean over rounds. x developer: the ratio of the medians of paired rounds, so not "
    "quite the quotient of two times. Both have their 95% intervals. repeat error: by how much noise "
    f"makes a time wrong. *: hand_bundled, calls joined into one. {SAME_LEGEND}"
)


class _Screen(Console):
    """A console with harmless texts: a stranger's may be among them."""

    def render_str(self, text: str, *arguments: Any, **named: Any) -> Text:
        """Return the text, with control characters written out."""
        return super().render_str(printable(text), *arguments, **named)

    def on_broken_pipe(self) -> None:
        """End as any other output does (`unread`)."""
        raise BrokenPipeError


@cache
def console() -> Console:
    """Return the console for results: as wide as the terminal, or as COLUMNS says."""
    return _Screen(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)


def say(line: str) -> None:
    """Print progress, beside the results."""
    print(printable(line), file=sys.stderr, flush=True)


def print_line(text: str) -> None:
    """Print a line of results, as it is."""
    console().print(text, highlight=False, soft_wrap=True, markup=False)


def print_text(text: str) -> None:
    """Print words for people, broken at the width of the terminal."""
    console().print(text, highlight=False, markup=False)


def ms(us: float | None) -> str:
    """Format a time in ms."""
    return NOTHING if us is None else figures(us / 1e3)


def between(us: float | None, low: float | None, high: float | None) -> str:
    """Format a time with its interval, in ms: `4.2 (3.9..4.6)`."""
    return NOTHING if us is None else f"{ms(us)} ({ms(low)}..{ms(high)})"


ABOVE_LINK = "Above 100%: fewer bytes cross than by a flat ring, or a burst passed unshaped."
_PIECES = re.compile(r"[^\s_/:-]+[\s_/:-]*|[\s_/:-]+")


def at_joints(text: str, width: int) -> str:
    """Break a name into lines of at most that width, after `_`, `-`, `/`, `:` or a space.

    A longer word stays whole.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append("")
        for piece in _PIECES.findall(line):
            if lines[-1] and len(f"{lines[-1]}{piece}".rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def case_parts(summary: pl.DataFrame, link_gbps: float | None = None) -> Iterator[RenderableType]:
    """Yield a table of all candidates for each Case and direction.

    Args:
        link_gbps: Declared rate of a node's links together, in 10^9 bytes a second.
    """
    for (case, direction), rows in summary.group_by("case", "direction", maintain_order=True):
        yield case_table(f"{case} {direction}", rows, narrow=console().width < NARROW, link_gbps=link_gbps)
        yield from (f"chosen: {name}" for name in rows.filter("chosen")["candidate"])
    yield CASES_LEGEND
    if link_gbps is not None:
        yield f"of the link: busbw over a host's declared {figures(link_gbps)} GB/s. {ABOVE_LINK}"


def shared_cores(probes: pl.DataFrame | None) -> Iterator[str]:
    """Yield the limit of all figures if ranks shared cores, by the probes."""
    if probes is not None and probes["oversubscribed"].any():
        yield "More ranks than cores: times contain the scheduler of the operating system. A test, not a cluster."


FIDELITY_LEGEND = (
    "error: median of |predicted - measured| / measured; repeat: what noise alone makes of it (half "
    "of what even and odd rounds differ by). order: rank correlation (Spearman), beside it that of even with odd "
    "rounds. pairs: the share in the right order, of those whose times can be told apart. "
    "regret: how far the model's first choice is above the fastest measured, lossy ones left out (of all of a "
    "Problem: the median); ~: the two cannot be told apart; ?: too few rounds to tell."
)


def plain_table(title: str | None, *headers: str, fold: Collection[str] = ()) -> Table:
    """Return an empty table in our common style.

    Args:
        headers: Of its columns; `>` before one sets its cells to the right.
        fold: Those of them with cells that may be broken.
    """
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        justify: JustifyMethod = "right" if header.startswith(">") else "left"
        table.add_column(
            header.removeprefix(">"), justify=justify, no_wrap=header not in fold, overflow="fold"
        )
    return table


def case_table(title: str, rows: pl.DataFrame, *, narrow: bool, link_gbps: float | None = None) -> Table:
    """Return a table of the candidates of one Case and direction.

    Args:
        rows: Of the table `summary`.
        narrow: For a terminal of 80 columns, with fewer columns.
        link_gbps: As in `case_parts`.
    """
    times_of, more_of = (
        (">predicted ms", ">measured ms", ">x developer"),
        (">repeat error", ">algbw, busbw GB/s" + ", of the link" * (link_gbps is not None)),
    )
    headers = ("candidate", "proven", *times_of, *(() if narrow else (*more_of, "the time is")))
    table = plain_table(title, *headers, fold=times_of if narrow else more_of)
    for row in _each_program_once(rows):
        invalid = row["validity"] == Validity.INVALID
        measured = between(row["measured_us"], row["measured_low_us"], row["measured_high_us"])
        more = (
            percent(row["repeat_rel_error"]),
            _bandwidths(row["algbw_gbps"], row["busbw_gbps"], link_gbps),
            row["validity"],
        )
        proven = row["numerics"] if row["proof"] == Outcome.PASS else row["proof"]
        table.add_row(
            at_joints(row["names"], NARROW_NAME if narrow else NAME_WIDTH),
            at_joints(proven, NARROW_WORD) if narrow else proven,
            ms(row["predicted_us"])
            if narrow
            else between(row["predicted_us"], row["predicted_low_us"], row["predicted_high_us"]),
            f"{measured} invalid" if narrow and invalid else measured,
            times(blocks.columns_ratio(row, "speedup")),
            *(() if narrow else more),
            style="bold" if row["chosen"] else None,
        )
    return table


def _each_program_once(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Case and direction with `names`: strategies with one Program share a row."""
    by_program: dict[str, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        by_program.setdefault(row["program"] or f"none of {row['candidate']}", []).append(row)
    for same in by_program.values():
        names = (_marked(row["candidate"], row["role"]) for row in same)
        yield {**same[0], "names": " = ".join(names)}


def _marked(name: str, role: str) -> str:
    """Return the name, with a mark for hand_bundled; the legend explains it."""
    return name + (" *" if role == Role.HAND_BUNDLED else "")


def times(ratio: Ratio | None) -> str:
    """Format a ratio with its interval, if any: `6.21 (5.90..6.52)`."""
    return NOTHING if ratio is None else str(ratio)


def _bandwidths(algbw: float | None, busbw: float | None, link_gbps: float | None) -> str:
    """Format both; with a declared link, its share of busbw: `0.05, 0.075, 60%`."""
    if algbw is None or busbw is None:
        return NOTHING
    share = "" if link_gbps is None else f", {busbw / link_gbps:.0%}"
    return f"{blocks.bandwidth(algbw)}, {blocks.bandwidth(busbw)}{share}"


def fidelity_table(rows: pl.DataFrame) -> Table:
    """Return how right the model was: rows of the deployment's table and of the Problems'."""
    figures_of = (">n", ">rounds", ">error", ">repeat", ">order", ">repeat", ">pairs", ">regret")
    table = plain_table("How right the model was", "Programs of", *figures_of)
    for row in rows.iter_rows(named=True):
        at_a_case = row["top1_regret"] and row["case"]
        noise = {True: "~", False: "", None: "?"}[row["top1_within_noise"]] if at_a_case else ""
        table.add_row(
            programs_of(row["problem"], row["case"], row["direction"]),
            str(row["n"]),
            str(row["rounds"]),
            percent(row["median_rel_error"]),
            percent(row["repeat_rel_error"]),
            correlation(row["spearman"]),
            correlation(row["repeat_spearman"]),
            percent(row["pair_accuracy"]),
            noise + percent(row["top1_regret"]),
        )
    table.caption, table.caption_justify = FIDELITY_LEGEND, "left"
    return table


def programs_of(problem: str | None, case: str | None, direction: str | None) -> str:
    """Return the Case, with the direction unless it is forward; without one, all that it is of."""
    if case is None:
        return "held-out mixed Programs" if problem is None else f"all of {problem}"
    name = at_joints(case, NAME_WIDTH)
    return name if direction == "forward" else f"{name}\n{direction}"


def _marks(one: StrategyLine) -> Iterator[str]:
    if Role.DEVELOPER in one.roles and Role.DEVELOPER not in one.names:
        yield " (developer)"
    if Role.HAND_BUNDLED in one.roles:
        yield " *"
    if YOURS in one.roles:
        yield " <- yours"


def trial_tables(listed: Sequence[StrategyLine], floor: Floor | None) -> Iterator[RenderableType]:
    """Yield a strategy beside the known ways: price by term; if timed, its time and its ratio to developer."""
    width = NARROW_NAME if console().width < NARROW else NAME_WIDTH
    terms = [t for t in Term if any(one.price and t in one.price.terms for one in listed)]
    prices, measured_of = (
        [">predicted ms", *(f">{term.value}" for term in terms)],
        [">measured ms", ">busbw GB/s", ">x developer"],
    )
    by_price, by_time = (plain_table(None, "strategy", *some, fold=some) for some in (prices, measured_of))
    developer = next((one.timed for one in listed if Role.DEVELOPER in one.roles), None)
    for one in listed:
        price, timed = one.price, one.timed
        ratio = timed.speedup_over(developer) if timed and developer and timed is not developer else None
        measured = between(timed.estimate.value, *timed.estimate.interval()) if timed else NOTHING
        if timed and floor and is_below(timed.estimate, floor.us(one.program)):
            measured, ratio = f"{measured} below the physical floor: invalid", None
        name = at_joints(" = ".join(one.names) + "".join(_marks(one)), width)
        style = "bold" if YOURS in one.roles else None
        by_term = (ms(price.terms.get(term)) if price and price.us is not None else NOTHING for term in terms)
        by_price.add_row(name, ms(price.us) if price else NOTHING, *by_term, style=style)
        busbw = (
            figures(catalog.bandwidths(one.program.problem.case, timed.estimate.value)[1])
            if timed
            else NOTHING
        )
        by_time.add_row(name, measured, busbw, times(ratio), style=style)
    priced = next((one.price for one in listed if one.price and one.price.us), None)
    if priced is not None and priced.us and priced.low_us is not None and priced.high_us is not None:
        yield by_price
        low, high = priced.low_us / priced.us, priced.high_us / priced.us
        yield f"predicted: the true time lies between {low:.2f} and {high:.2f} times that in 8 cases of 10."
    if any(one.timed for one in listed) or priced is None:
        yield by_time
