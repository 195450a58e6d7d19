"""Rule bench: time the proven forward seeds of one Problem at all its Cases, in one launch."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.timing import Job, TimingSettings, backend_of, time_programs
from overlayccl_core.deployments.deployment import Deployment
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.program import Program
from overlayccl_core.settings import Settings

Row = Mapping[str, Any]


def run(
    deployment: Deployment,
    settings: Settings,
    seeds: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[dict[str, Any]]]:
    """The rows of `bench`: one per launch, Case and strategy; equal Programs of a Case are timed once.

    `code`: digest of the rule's code; launches of another are not reused. ValueError if no seed is both legal
    and proven.
    """
    rows = to_be_timed(seeds.iter_rows(named=True))
    if not rows:
        raise ValueError(
            f"no forward seed of {', '.join(seeds['case'].unique(maintain_order=True))} is legal and proven: "
            "look at `legality`, `equivalence` and `message` in table seeds"
        )
    jobs = jobs_of(rows, backend_of(deployment).emit)
    timing = TimingSettings(
        seconds=settings.bench.seconds,
        minimum_rounds=settings.bench.minimum_rounds,
        maximum_rounds=settings.bench.maximum_rounds,
    )
    rule = partial_rule(rows[0]["case"].partition("/")[0])
    timed = time_programs(list(jobs.values()), deployment, timing, Path(partial_dir), rule, code, progress)
    at = {job.key: where for where, job in jobs.items()}
    found = []
    for one in timed:
        columns = one.columns(jobs[at[one.key]].program)
        for row in rows:
            if _where(row) == at[one.key]:
                found.append({**{name: row[name] for name in ("case", "direction", "strategy")}, **columns})
    return {"bench": found}


def partial_rule(problem: str) -> str:
    """What the folders of a Problem's batches begin with: they go when its table is written, not others'."""
    return f"bench-{problem}"


def to_be_timed(seeds: Iterable[Row]) -> list[Row]:
    """The forward seeds that are Programs, legal and proven."""
    return [
        row
        for row in seeds
        if row["direction"] == "forward"
        and row["status"] == "program"
        and row["legality"] == "pass"
        and row["equivalence"] == "pass"
    ]


def jobs_of(rows: Iterable[Row], emit: Callable[[Program], str]) -> dict[tuple[str, str], Job]:
    """(Case, Program) -> its Job, named after the first strategy that gives this Program."""
    found: dict[tuple[str, str], Job] = {}
    for row in rows:
        if _where(row) not in found:
            program = loads(row["program_json"])
            name = f"{row['case']} {row['strategy']}"
            found[_where(row)] = Job(key=name, program=program, source=emit(program))
    return found


def _where(row: Row) -> tuple[str, str]:
    return row["case"], row["program"]
