"""What tuning end to end would have cost: every proven candidate trained as the finalists were.

The seconds are honest: of this run's own training launches, with the start of the ranks, compiling, inspection and
launches that were thrown away. The count is the least that such a tuner needs: an arm tries one candidate at every
Case of a step at once, so at each count of microbatches it takes as many arms as the Case with most candidates has.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.report.payback import Cost
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.steps import STAMPS, STEPS

FINALIST = "finalist_"
PLACE = ("microbatches", "problem", "case", "direction")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """A model's candidates, and what training all of them takes.

    Attributes:
        priced, proven: Different Programs at the Cases of its step, at all counts of microbatches together.
        arms: That many arms hold every proven one.
        seconds: Of training these arms, one job after another; node_seconds: of nodes, None if unknown.
        here: What the model needed in this run, alone.
    """

    model: str
    priced: int
    proven: int
    arms: int
    seconds: float
    node_seconds: float | None
    here: Cost

    @property
    def arm_s(self) -> float:
        """Seconds of one arm, on average."""
        return self.seconds / self.arms

    @property
    def times_as_long(self) -> float | None:
        """Node-seconds of training all over those that this run took for the model; None if unknown."""
        mine = self.here.node_seconds
        return self.node_seconds / mine if mine and self.node_seconds is not None else None


def end_to_end(tree: Tree, cost: Cost | None) -> tuple[EndToEnd, ...]:
    """Return the trained models' in their order; none without a known cost."""
    return () if cost is None or cost.unknown else tuple(_of_models(tree, cost))


def _of_models(tree: Tree, cost: Cost) -> Iterator[EndToEnd]:
    priced, proven = _programs(tree)
    for model in tree.models:
        steps, stamps = (tree.table(of, f"train/{model}/{of.name}") for of in (STEPS, STAMPS))
        job = next((job for job in cost.jobs if job.name == f"train-{model}"), None)
        if steps is None or stamps is None or job is None:
            continue
        places = stamps.select(PLACE).unique(maintain_order=True)
        counts = _counts(places, proven)
        arms = counts.group_by("microbatches").agg(pl.col("programs").max()).sort("microbatches")
        seconds = sum(
            number * _arm_s(microbatches, steps, stamps, job.seconds)
            for microbatches, number in arms.iter_rows()
        )
        number = int(arms["programs"].sum())
        if not number:
            continue
        yield EndToEnd(
            model=model,
            priced=int(_counts(places, priced)["programs"].sum()),
            proven=int(counts["programs"].sum()),
            arms=number,
            seconds=seconds,
            node_seconds=None if cost.nodes is None else seconds * cost.nodes,
            here=cost.alone(model),
        )


def _programs(tree: Tree) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return (priced, proven) Programs of all Problems: case, direction, program; each once."""
    key = ["case", "direction", "program"]
    empty = pl.DataFrame(schema=dict.fromkeys(key, pl.String))
    priced, proven = [empty], [empty]
    ways, found = tree.of_problems(PRICES), tree.of_searches(CANDIDATES)
    for table, passed in ((ways, pl.col("feasible")), (found, pl.col("equivalence") == Outcome.PASS)):
        if table is not None:
            priced.append(table.filter(pl.col("predicted_us").is_not_null()).select(key))
            proven.append(table.filter(passed).select(key))
    return pl.concat(priced).unique(), pl.concat(proven).unique()


def _counts(places: pl.DataFrame, programs: pl.DataFrame) -> pl.DataFrame:
    """Return `places` with their number of Programs, `programs`."""
    number = programs.group_by("case", "direction").agg(pl.len().cast(pl.Int64).alias("programs"))
    return places.join(number, on=["case", "direction"], how="left", maintain_order="left").with_columns(
        pl.col("programs").fill_null(0)
    )


def _arm_s(microbatches: int, steps: pl.DataFrame, stamps: pl.DataFrame, job_s: float) -> float:
    """Return the seconds of one finalist in all its launches: its steps, and its part of all else of the job."""
    us = pl.col("cold_us").list.sum() + pl.col("steps_us").list.sum()
    launched = (
        steps.filter(pl.col("status") == JobStatus.TRAINED)
        .group_by("microbatches", "arm", "launch")
        .agg(us.sum() / 1e6)
        .rename({"cold_us": "own_s"})
    )
    rest_s = max(job_s - float(launched["own_s"].sum()), 0.0) / max(launched.height, 1)
    each = launched.filter(microbatches=microbatches).group_by("arm").agg((pl.col("own_s") + rest_s).sum())
    as_finalists = stamps.filter(pl.col("arm").str.starts_with(FINALIST), microbatches=microbatches)["ran_as"]
    finalists = each.filter(pl.col("arm").is_in(as_finalists.implode()))
    mine = each if finalists.is_empty() else finalists
    return float(np.mean(mine["own_s"].to_numpy())) if mine.height else 0.0
