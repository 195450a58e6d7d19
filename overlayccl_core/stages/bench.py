"""Rule bench: time the shortlist of one Problem, all Cases and both directions, in one launch."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.timing import Job, TimingSettings, backend_of, time_programs
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.program import Program

Row = Mapping[str, Any]
KEY = ("case", "direction", "candidate")


def run(
    deployment: Deployment,
    settings: Settings,
    shortlist: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[dict[str, Any]]]:
    """The rows of `bench`: one per launch and candidate.

    `code`: digest of the rule's code; launches of another are not reused.
    """
    rows = list(shortlist.iter_rows(named=True))
    jobs = jobs_of(rows, backend_of(deployment).emit)
    timing = TimingSettings(
        seconds=settings.bench.seconds,
        minimum_rounds=settings.bench.minimum_rounds,
        maximum_rounds=settings.bench.maximum_rounds,
    )
    rule = partial_rule(rows[0]["case"].partition("/")[0])
    timed = time_programs(list(jobs.values()), deployment, timing, Path(partial_dir), rule, code, progress)
    key_of = {job.key: key for key, job in jobs.items()}
    found = []
    for one in timed:
        key = key_of[one.key]
        found.append({**dict(zip(KEY, key, strict=True)), **one.columns(jobs[key].program)})
    return {"bench": found}


def partial_rule(problem: str) -> str:
    """What the folders of a Problem's batches begin with: they go when its table is written, not others'."""
    return f"bench-{problem}"


def jobs_of(rows: Iterable[Row], emit: Callable[[Program], str]) -> dict[tuple[str, ...], Job]:
    """(case, direction, candidate) -> its Job. A Case and direction holds every Program once."""
    found: dict[tuple[str, ...], Job] = {}
    for row in rows:
        program = loads(row["program_json"])
        key = tuple(row[name] for name in KEY)
        found[key] = Job(key=" ".join(key), program=program, source=emit(program))
    return found
