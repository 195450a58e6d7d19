"""What a run deploys and what it is worth, in at most 100 columns."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from rich.console import RenderableType
from rich.table import Table

from overlayccl_core.cli.render import plain_table, times

Row = Mapping[str, Any]
CASE_WIDTH, NAME_WIDTH = 28, 22
LEGEND = (
    "x developer, x best other arm: how many times as fast, with 95% intervals; in a training step where a model "
    "has the Case (of several the least), else in the bench. The best other arm is the fastest that needs no "
    "search: single_graph, hand_bundled, or the framework's own."
)


def deployed_parts(choices: Mapping[str, pl.DataFrame]) -> Iterator[RenderableType]:
    """A table for each Problem, and why, where what is deployed is not the first finalist."""
    for problem, choice in choices.items():
        yield _table(problem, choice)
        for row in choice.iter_rows(named=True):
            if row["arm"] != "finalist_1":
                yield f"{_place(row)}: {row['reason']}"
    yield LEGEND


def _place(row: Row) -> str:
    """`n4-m8-l8-32KiB-f32`, with the direction where it is not forward."""
    case = str(row["case"]).partition("/")[2]
    return case if row["direction"] == "forward" else f"{case} {row['direction']}"


def _table(problem: str, choice: pl.DataFrame) -> Table:
    table = plain_table(f"{problem}: deployed")
    table.add_column("Case", max_width=CASE_WIDTH, overflow="fold")
    table.add_column("candidate", max_width=NAME_WIDTH, overflow="fold")
    table.add_column("in", no_wrap=True)
    for header in ("x developer", "x best other arm"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in choice.iter_rows(named=True):
        trained = row["step_speedup"] is not None
        other = "" if row["best_other"] is None else f"\n{row['best_other']}"
        table.add_row(
            _place(row),
            row["candidate"],
            "step" if trained else "bench",
            _ratio(row, "step_speedup" if trained else "speedup"),
            _ratio(row, "step_gain") + other,
        )
    return table


def _ratio(row: Row, name: str) -> str:
    return times(row[name], row[f"{name}_low"], row[f"{name}_high"])
