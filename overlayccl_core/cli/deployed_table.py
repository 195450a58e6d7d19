"""The deployed modules and their gains, in at most 100 columns: models first, then Cases."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, at_joints, ms, plain_table, times
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.measuring.arms import arm_label, stands_as, use_text
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import columns_ratio
from overlayccl_core.report.passes import untrained_text
from overlayccl_core.report.sentences import DISTURBED, KNOWN, case_known, case_warnings, facts, warnings
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.deployed import Part

Row = Mapping[str, Any]
CASE_WIDTH, NAME_WIDTH, ARM_WIDTH = 28, 22, 32
MODELS_LEGEND = (
    "M: into how many microbatches the batch of a step is split; 1: not at all. x step: its step over that of "
    "what was chosen (2: that is twice as fast), with its 95% interval; chosen is: what the interval says of what "
    "was chosen (faster: above 1.02; not slower: from 0.95 on; slower: below 0.98). The rival is the fastest that "
    "needs no search, at any M, with the same or less memory (of a step, on a rank). Where what was chosen is "
    "slower than a rival, that is used in its place. = ARM: the same Programs. <-: to be used."
)
CASES_LEGEND = (
    "x best known way: how many times as fast what was chosen is as the fastest arm that needs no search. Of a "
    "Case that a model trains (step of ...) the step above says it; any other was timed alone, in launches that "
    "chose nothing. no search needed: what was chosen is a way that people write (= ARM), chosen by measuring."
)


def model_parts(worths: Sequence[Worth]) -> Iterator[RenderableType]:
    """Yield for each model its warnings, its deployed arm with gains, and every other arm."""
    for worth in worths:
        yield f"[bold]{worth.model}[/bold]"
        for said in (*warnings(worth), *facts(worth)):
            yield Padding(said, (0, 0, 0, 2))
        yield _ways(worth)
    if worths:
        yield MODELS_LEGEND


def _ways(worth: Worth) -> Table:
    """A row for each timed arm; plainer arms with the same modules add their names."""
    table = plain_table(None, ">M", "arm", ">step ms", ">MiB", ">x step", "chosen is", "search")
    used = worth.instead or worth.deployed
    for one in worth.splits:
        if not one.timed:
            continue
        names = [arm_label(s.arm) for s in worth.splits if not s.timed and s.is_program_of(one)]
        memory = one.peak_memory_bytes
        table.add_row(
            str(one.microbatches),
            at_joints(
                ", ".join([_name(one, used is one), *(names if one.arm == one.ran_as else [])]), ARM_WIDTH
            ),
            ms(one.step_us),
            NOTHING if memory is None else f"{memory / MIB:.1f}",
            times(one.deployed_speedup),
            one.deployed_speedup.word if one.deployed_speedup else NOTHING,
            "needed" if one.needs_search else "",
            style="bold" if used is one else None,
        )
    return table


def _name(one: SplitRow, used: bool) -> str:
    """Return `the chosen file = hand bundled <-` or `developer: the rival`."""
    same = "" if one.ran_as == one.arm else f" = {arm_label(one.ran_as)}"
    mark = {Part.RIVAL: ": the rival", Part.INSTEAD: ": in its place"}.get(one.part, "")
    return f"{arm_label(one.arm)}{same}{mark}{' <-' if used else ''}"


def case_parts(deployed: pl.DataFrame) -> Iterator[RenderableType]:
    """Yield a table for each Problem, after its warnings."""
    for (problem,), rows in deployed.group_by("problem", maintain_order=True):
        yield from (said for row in rows.iter_rows(named=True) for said in case_warnings(row))
        if rows["disturbed"].any():
            yield f"{problem}: {DISTURBED}"
        if rows["trained_in"].is_null().all():
            yield untrained_text((str(problem),))
        yield _cases(str(problem), rows)
    yield CASES_LEGEND


def _cases(problem: str, rows: pl.DataFrame) -> Table:
    headers = ("Case", "candidate", ">x best known way", "use")
    table = plain_table(f"{problem}: deployed", *headers, fold=("use",))
    for row in rows.iter_rows(named=True):
        case, arm = str(row["case"]).partition("/")[2], stands_as(row["arm"], row["problem"])
        other = "" if row["best_other"] is None else f"\n{arm_label(row['best_other'])}"
        table.add_row(
            at_joints(
                f"{case}{'' if row['direction'] == 'forward' else ' backward'}{_trained(row)}", CASE_WIDTH
            ),
            at_joints(
                f"{row['candidate']}\n= {row['way'] if is_found(row['candidate']) else arm_label(arm)}",
                NAME_WIDTH,
            ),
            (KNOWN if case_known(row) else _worded(columns_ratio(row, "gain"))) + other,
            use_text(row["instead"]) if row["instead"] else "deployed",
        )
    return table


def _trained(row: Row) -> str:
    return f"\nstep of {row['trained_in']}" if row["trained_in"] else ""


def _worded(ratio: Ratio | None) -> str:
    return times(ratio) if ratio is None or ratio.low is None else f"{times(ratio)}\n{ratio.word}"
