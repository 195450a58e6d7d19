"""Prices by term side by side: a column for each Program and one for its difference to the first."""

from collections.abc import Sequence
from itertools import chain

from rich.table import Table

from overlayccl_core.cli.render import NOTHING, ms, plain_table
from overlayccl_core.report.terms import Priced, term_names


def terms_table(title: str | None, parts: Sequence[tuple[str, Priced]]) -> Table:
    """Return a table of (label, Program) parts, at most three, as 80 columns hold them. Times in ms."""
    first, *others = (f">{label}" for label, _ in parts)
    table = plain_table(title, "ms", first, *chain.from_iterable((label, ">more") for label in others))
    table.caption = "\n".join(f" {label}: {one.name}" for label, one in parts)
    table.caption_justify, table.caption_style = "left", ""
    for term in term_names(one for _, one in parts):
        cells = [one.terms.get(term) for _, one in parts]
        table.add_row(term, *_with_differences([ms(c) for c in cells], cells))
    predicted = [one.predicted_us for _, one in parts]
    table.add_section()
    table.add_row("predicted", *_with_differences([ms(us) for us in predicted], predicted), style="bold")
    table.add_row("10%..90%", *_with_differences([_range(one.low_us, one.high_us) for _, one in parts], None))
    measured = [one.measured_us for _, one in parts]
    if any(us is not None for us in measured):
        table.add_row("measured", *_with_differences([ms(us) for us in measured], measured), style="bold")
        ranges = [_range(one.measured_low_us, one.measured_high_us) for _, one in parts]
        table.add_row("95%", *_with_differences(ranges, None))
    return table


def _range(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"{ms(low)}..{ms(high)}"


def _with_differences(cells: Sequence[str], values: Sequence[float | None] | None) -> list[str]:
    """Return the cells; after each but the first stands its difference to the first."""
    row = [cells[0]]
    for number, cell in enumerate(cells[1:], 1):
        row.append(cell)
        a, b = (values[0], values[number]) if values is not None else (None, None)
        row.append("" if a is None or b is None else _signed(b - a))
    return row


def _signed(us: float) -> str:
    return f"{'-' if us < 0 else '+'}{ms(abs(us))}" if us else "0"
