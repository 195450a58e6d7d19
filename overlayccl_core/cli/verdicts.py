"""The end of a run on one screen: the machine, each model's verdict, Cases timed alone, lines to type."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import polars as pl
from rich.console import RenderableType
from rich.table import Table

from overlayccl_core.cli.render import NOTHING, ms, plain_table, shared_cores, times
from overlayccl_core.measuring.arms import is_framework, use_text
from overlayccl_core.report.blocks import columns_ratio, count
from overlayccl_core.report.conditions import disturbed, emulated, fingerprints_of
from overlayccl_core.report.sentences import KNOWN, quicker
from overlayccl_core.report.tree import Tree
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.deployed import Use
from overlayccl_core.tables.published import FOLDER

YES = {Use.FOUND: "YES, found", Use.KNOWN: "YES, known way"}
PLACED = "took the place"
LEGEND = (
    "developer: one library call a tensor, at its fastest M. known way: the fastest that needs no search, at the "
    "same or less memory; MiB of a rank. M: microbatches of a step. Ratios of step times with 95% intervals, from "
    "{launches} after selection; {known}: a known way, chosen by measuring, and no other seems faster; {placed}: "
    "the chosen way was slower than this one."
)


def parts(tree: Tree, probes: pl.DataFrame | None) -> Iterator[RenderableType]:
    """Yield all of it; `probes` tell whether ranks shared cores."""
    yield from chain(emulated(tree), _machine(tree, probes))
    if tree.worths:
        yield from of_models(tree.worths)
    if tree.deployed is not None:
        alone = tree.deployed.filter(pl.col("trained_in").is_null())
        if alone.height:
            yield _alone(alone)
        yield from _script(tree.path, tree.deployed)
    yield from disturbed(tree)


def of_models(worths: Sequence[Worth]) -> Iterator[RenderableType]:
    """Yield a table of models, and faster ways at a price."""
    yield _models(worths)
    yield from (f"{worth.model}: {said}" for worth in worths for said in quicker(worth))
    launches = max(worth.launches for worth in worths)
    yield LEGEND.format(
        launches=count(launches, "fresh launch", "fresh launches"), known=KNOWN, placed=PLACED
    )


def _machine(tree: Tree, probes: pl.DataFrame | None) -> Iterator[str]:
    """Yield the measured machine, and the limits of its figures."""
    for one in fingerprints_of(tree):
        yield f"Measured on: {one}"
    yield from shared_cores(probes)


def _models(worths: Sequence[Worth]) -> Table:
    headers = (
        "model",
        "use deploy/?",
        ">M",
        ">step ms",
        ">MiB",
        ">over developer",
        ">over the best known way",
    )
    table = plain_table(None, *headers, fold=("use deploy/?",))
    for worth in worths:
        table.add_row(worth.model, *_verdict(worth))
    return table


def _verdict(worth: Worth) -> tuple[str, ...]:
    """Return the cells of a model behind its name."""
    mine = worth.instead or worth.deployed
    if mine is None:
        return "NO: not timed in steps", *[NOTHING] * 5
    memory = NOTHING if mine.peak_memory_bytes is None else f"{mine.peak_memory_bytes / 2**20:.1f}"
    figures = str(mine.microbatches), ms(mine.step_us), memory
    if worth.instead is not None:
        placed = worth.replaced.get(worth.instead.microbatches) and not is_framework(worth.instead.arm)
        use = YES[Use.KNOWN] if placed else f"NO: {use_text(worth.instead.arm)}"
        return use, *figures, NOTHING, PLACED if placed else NOTHING
    over = KNOWN if worth.needs_no_search(worth.rival) else times(worth.speedup_over(worth.rival))
    return (
        YES[Use.KNOWN if worth.known else Use.FOUND],
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


def _script(folder: Path, deployed: pl.DataFrame) -> Iterator[str]:
    """Yield the lines for a training script: copy, import and connect, the way back."""
    trained_first = deployed.sort(pl.col("trained_in").is_null(), maintain_order=True)
    for row in trained_first.iter_rows(named=True):
        file = folder / FOLDER / f"{row['problem']}.py"
        if row["in_file"] is not None and file.exists():
            yield f"In your script, after init_process_group:   cp {file} ."
            yield f'  import {row["problem"]}; sums = {row["problem"]}.connect("{row["case"]}")'
            yield "  OVERLAYCCL_PLAIN=1 runs the plain calls in place of the chosen ones. More: docs/deploying.md"
            return
    yield "deploy/ has no file: keep torch's own calls."
