"""Failures of sketches on the ranks, for the questions of their search's second round."""

import json

import polars as pl

from overlayccl_core.asking.clean import without_places
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.program.problem import Direction
from overlayccl_core.rewrites.recipe import Recipe, source_base
from overlayccl_core.search.proposal import FailedSketch, Sketch
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY

EVIDENCE = "; see "  # before the file of a traceback, useless to a language model
KEY = [column.name for column in CANDIDATE_KEY]


def failed_sketches(
    trials: pl.DataFrame, candidates: pl.DataFrame, sketches: pl.DataFrame
) -> tuple[FailedSketch, ...]:
    """Return each sketch that failed anywhere, with all its failures, in the order of writing."""
    failed = trials.filter(pl.col("status") != JobStatus.RIGHT).join(candidates, on=KEY)
    where: dict[str, list[str]] = {}
    for row in failed.iter_rows(named=True):
        base = Recipe.from_json(json.loads(row["recipe"])).first
        said = without_places(row["message"].partition(EVIDENCE)[0])
        where.setdefault(base, []).append(f"{row['case']} {row['direction']}: {row['status']}: {said}")
    written: dict[str, Sketch] = {}
    for row in sketches.filter(pl.col("source").is_not_null()).iter_rows(named=True):
        base = source_base(row["source"], row["function"])
        if base in where and (base not in written or row["direction"] == Direction.FORWARD):
            written[base] = Sketch(
                function=row["function"],
                source=row["source"],
                rationale=row["rationale"],
                direction=Direction(row["direction"]),
            )
    return tuple(FailedSketch(sketch=one, where=tuple(where[base])) for base, one in written.items())
