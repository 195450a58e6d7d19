"""The end of a run on one screen: the machine, each model's verdict, Cases timed alone, lines to type."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import polars as pl
from rich.console import RenderableType
from rich.table import Table

from overlayccl_core.cli.render import (
    LEGEND,
    NOTHING,
    at_joints,
    case_table,
    ms,
    plain_table,
    shared_cores,
    times,
)
from overlayccl_core.measuring.arms import is_framework, use_text
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.program.problem import Direction
from overlayccl_core.report import accuracy
from overlayccl_core.report.blocks import columns_ratio, count
from overlayccl_core.report.conditions import disturbed, emulated, fingerprints_of
from overlayccl_core.report.passes import untrained_text
from overlayccl_core.report.sentences import (
    KNOWN,
    case_facts,
    case_known,
    case_warnings,
    over_fastest,
    place_text,
    quicker,
)
from overlayccl_core.report.tree import Tree
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.deployed import Use
from overlayccl_core.tables.published import FOLDER

CASE_WIDTH, NAME_WIDTH = 24, 22
HEADERS = (
    "model",
    "use deploy/?",
    ">M",
    ">step ms",
    ">MiB",
    ">over developer",
    ">over the best known way",
)
YES = {Use.FOUND: "YES, found", Use.KNOWN: "YES, known way"}
NO_NEED = "no need"
NO = "NO:"
NOT_TIMED = f"{NO} not timed in steps"
PLACED = "took the place"
AS_DEVELOPER = "= over developer"
COLUMNS = (
    "M, step ms, MiB: into how many microbatches a step splits its batch (1: not at all), its time, and the most "
    "memory of tensors on a rank.",
    "over ...: how many times as fast (below 1: slower), with a 95% interval, from {launches} after the choice. If "
    "the interval has 1 in it, the difference may be noise.",
    "developer: one library call a tensor, at its fastest M. best known way: the fastest that people write or that "
    "torch has, at the same or less memory.",
)
CELLS = {  # the beginning of a cell -> its meaning
    YES[Use.FOUND]: "a search found the calls in deploy/.",
    YES[Use.KNOWN]: "the calls in deploy/ are a way that people write, too.",
    NO_NEED: "deploy/ makes the developer's calls, as a script without it does.",
    NOT_TIMED: "what was chosen did not run in this model's steps.",
    f"{NO} keep": "torch's own way is faster than what was chosen; deploy/ has no file of this model.",
    f"{NO} use": "the way named is faster than the file in deploy/, where another step needs the same Case.",
    KNOWN: "the chosen way is a known way, and no other was measured faster.",
    AS_DEVELOPER: "developer is the best known way.",
    PLACED: "this known way was faster than the chosen one, and is now the file in deploy/.",
}


def parts(tree: Tree, probes: pl.DataFrame | None, summary: pl.DataFrame) -> Iterator[RenderableType]:
    """Yield all of it; `probes` tell whether ranks shared cores, `summary` has the candidates."""
    yield from chain(emulated(tree), _machine(tree, probes))
    if tree.worths:
        yield from of_models(tree.worths)
    if tree.deployed is not None:
        alone = tree.deployed.filter(pl.col("trained_in").is_null())
        if tree.worths and alone.height:
            yield _alone(alone)
        elif alone["case"].n_unique() == 1:
            yield from _of_one_case(alone, summary)
        elif alone.height:
            yield from _of_cases(alone)
        yield from _script(tree.path, tree.deployed)
    yield from disturbed(tree)
    yield from accuracy.lines(tree)[:1]


def of_models(worths: Sequence[Worth]) -> Iterator[RenderableType]:
    """Yield a table of models, faster ways at a price, finds beside these, and the meaning of columns and cells."""
    rows = [_verdict(worth) for worth in worths]
    table = plain_table(None, *HEADERS, fold=("use deploy/?",))
    for worth, cells in zip(worths, rows, strict=True):
        table.add_row(worth.model, *cells)
    yield table
    yield from (f"{worth.model}: {said}" for worth in worths for said in quicker(worth))
    yield from (f"{worth.model}: {said}" for worth in worths for said in _beside_more_memory(worth))
    launches = count(max(worth.launches for worth in worths), "fresh launch", "fresh launches")
    yield from (line.format(launches=launches) for line in COLUMNS)
    shown = [cell for cells in rows for cell in cells]
    for cell, meaning in CELLS.items():
        if any(one.startswith(cell) for one in shown):
            yield f"{cell}: {meaning}"
    if why := _without_a_ratio(worths):
        yield f"{NOTHING}: {'; or '.join(why)}."


def _beside_more_memory(worth: Worth) -> Iterator[str]:
    """Tell the gain of what a search found over the fastest way at any memory, unless the table has it."""
    if worth.instead is None and not worth.known and worth.fastest is not worth.rival:
        yield from over_fastest(worth)


def _without_a_ratio(worths: Iterable[Worth]) -> list[str]:
    """Say why the cells of ratios may be empty."""
    timed = [worth for worth in worths if worth.instead or worth.deployed]
    stands = [worth for worth in timed if worth.instead is None]
    empty = [
        (worth.deployed, other)
        for worth in stands
        for other in (worth.developer, worth.rival)
        if worth.speedup_over(other) is None and not (other is worth.rival and worth.needs_no_search(other))
    ]
    same = [mine for mine, other in empty if mine and other and other.is_program_of(mine)]
    why = {
        "the row shows another way than the chosen one, and ratios are of the chosen one": len(stands)
        < len(timed),
        "both sides make the same calls": bool(same),
        "the other side was not timed": len(same) < len(empty),
    }
    return [text for text, holds in why.items() if holds]


def _machine(tree: Tree, probes: pl.DataFrame | None) -> Iterator[str]:
    """Yield the measured machine, and the limits of its figures."""
    for one in fingerprints_of(tree):
        yield f"Measured on: {one}"
    yield from shared_cores(probes)


def _verdict(worth: Worth) -> tuple[str, ...]:
    """Return the cells of a model behind its name."""
    mine = worth.instead or worth.deployed
    if mine is None:
        return NOT_TIMED, *[NOTHING] * 5
    memory = NOTHING if mine.peak_memory_bytes is None else f"{mine.peak_memory_bytes / 2**20:.1f}"
    figures = str(mine.microbatches), ms(mine.step_us), memory
    if worth.instead is not None:
        placed = worth.replaced.get(worth.instead.microbatches) and not is_framework(worth.instead.arm)
        known = NO_NEED if worth.is_developers else YES[Use.KNOWN]
        use = known if placed else f"{NO} {use_text(worth.instead.arm)}"
        return use, *figures, NOTHING, PLACED if placed else NOTHING
    over = KNOWN if worth.needs_no_search(worth.rival) else times(worth.speedup_over(worth.rival))
    if not worth.known and worth.rival is worth.developer and over != NOTHING:
        over = AS_DEVELOPER
    return (
        NO_NEED if worth.is_developers else YES[Use.KNOWN if worth.known else Use.FOUND],
        *figures,
        times(worth.speedup_over(worth.developer)),
        over,
    )


def _alone(deployed: pl.DataFrame) -> Table:
    """A row for each Problem with Cases of no model."""
    counts = (">Cases and directions", ">found", ">known way", ">torch's own", ">best gain")
    table = plain_table("Timed alone: one pass, no model", "Problem", *counts)
    for (problem,), rows in deployed.group_by("problem", maintain_order=True):
        uses = [Use(use) for use in rows["use"]]
        found = rows.filter((pl.col("use") == Use.FOUND) & pl.col("instead").is_null())
        best = found.drop_nulls("gain").sort("gain", descending=True).head(1).rows(named=True)
        table.add_row(
            str(problem),
            str(rows.height),
            *(str(uses.count(use)) for use in (Use.FOUND, Use.KNOWN, Use.FRAMEWORK)),
            times(columns_ratio(best[0], "gain")) if best else NOTHING,
        )
    return table


def _of_one_case(deployed: pl.DataFrame, summary: pl.DataFrame) -> Iterator[RenderableType]:
    """Yield, for each direction of the only Case, the timed ways, the fastest first, and the choice."""
    yield untrained_text(tuple(deployed["problem"].unique()))
    for row in deployed.iter_rows(named=True):
        here = pl.col("measured_us").is_not_null() & (pl.col("direction") == row["direction"])
        timed = summary.filter(here, case=row["case"]).sort("measured_us")
        yield case_table(f"{place_text(row)}: the bench, by which was chosen", timed, narrow=True)
        yield from (*case_facts(row), *case_warnings(row))
    yield f"predicted: by the cost model. {LEGEND}"


def _of_cases(deployed: pl.DataFrame) -> Iterator[RenderableType]:
    """Yield a row for each Case and direction of a run without a model, and what took the place of a choice."""
    yield untrained_text(tuple(deployed["problem"].unique(maintain_order=True)))
    table = plain_table(None, "Case", "in deploy/", ">ms a pass", ">over developer", ">over known ways")
    for row in deployed.iter_rows(named=True):
        backward = "" if row["direction"] == Direction.FORWARD else " backward"
        known = KNOWN if case_known(row) else times(columns_ratio(row, "gain"))
        gains = ms(row["measured_us"]), times(columns_ratio(row, "speedup")), known
        table.add_row(
            at_joints(f"{row['case']}{backward}", CASE_WIDTH),
            at_joints(str(row["in_file"]), NAME_WIDTH),
            *((NOTHING, NOTHING, PLACED) if row["instead"] else gains),
        )
    yield table
    yield from (said for row in deployed.iter_rows(named=True) for said in case_warnings(row))
    yield "over ...: how many times as fast, in fresh launches after the choice, with a 95% interval."


def _script(folder: Path, deployed: pl.DataFrame) -> Iterator[str]:
    """Yield the lines for a training script: copy, import and connect, the way back."""
    trained_first = deployed.sort(pl.col("trained_in").is_null(), maintain_order=True)
    for row in trained_first.iter_rows(named=True):
        file = folder / FOLDER / f"{row['problem']}.py"
        if row["in_file"] is not None and file.exists():
            if row["problem"] == CAPTURED:
                yield f"In your script:   overlayccl capture --compare {folder} -- COMMAND   # how much faster?"
                yield f"                  overlayccl run --ways {folder} -- COMMAND   # more: docs/your-script.md"
                return
            yield f"In your script, after init_process_group:   cp {file} ."
            yield f'  import {row["problem"]}; sums = {row["problem"]}.connect("{row["case"]}")'
            yield "  OVERLAYCCL_PLAIN=1 runs the plain calls in place of the chosen ones. More: docs/deploying.md"
            return
    yield "deploy/ has no file: keep torch's own calls."
