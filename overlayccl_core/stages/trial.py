"""Rule trial: run every proven sketch of a search once on the ranks, and check its values.

Rules rewrite calls that people wrote, and the selftest checked those. A language model may compose calls new to the
library. The trial shows whether its compiler and the ranks take them, while the model can still be asked to mend
them. Without a proven sketch no ranks start.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.evidence.values import ProvenJob, value_check
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.search.candidate import Origin
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.trials import TRIALS
from overlayccl_core.timing.batch import TimingBatch, check_values
from overlayccl_core.timing.failed_jobs import FailedJobs
from overlayccl_core.timing.partial import forget

Row = dict[str, Any]
KEY = ("case", "direction", "candidate")


def main(job: RuleJob) -> None:
    """Write the table trials of one search of one Problem."""
    search = job.option("search")
    rows = run(
        load(job.option("deployment")),
        search,
        job.read(CANDIDATES),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({TRIALS: rows})
    forget(job.partial, batch_name(job.problem, search), job.all_outputs)


def run(
    deployment: Deployment,
    search: str,
    candidates: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> list[Row]:
    """Return the rows of `trials`: one for every proven sketch of the search's candidates; none without any.

    `code`: digest of the rule's code; trials of other code are not reused.

    Raises:
        LaunchError: Ranks fail at no sketch (a ValueError).
    """
    backend = backend_of(deployment)
    rows = [row for row in candidates.iter_rows(named=True) if _is_proven_sketch(row)]
    proven = [ProvenJob(job=_job(row, backend.emit), numerics=NumericsClass(row["numerics"])) for row in rows]
    if not proven:
        progress("no sketch is proven, so none is run")
        return []
    batch = TimingBatch(
        jobs=[one.job for one in proven],
        deployment=deployment,
        settings=TimingSettings(seconds=1.0),  # of nothing: none is timed
        partial_dir=partial_dir,
        batch_name=batch_name(rows[0]["case"].partition("/")[0], search),
        code=code,
    )
    return list(_rows(rows, check_values(batch, value_check(proven), progress), search))


def batch_name(problem: str, search: str) -> str:
    """Return the prefix of its batches' folders."""
    return f"trial-{problem}-{search}"


def _is_proven_sketch(row: Row) -> bool:
    passed = row["equivalence"] == row["legality"] == Outcome.PASS
    return passed and bool(row["origin"] == Origin.SKETCH)


def _job(row: Row, emit: Callable[..., str]) -> Job:
    program = loads(row["program_json"])
    return Job(key=_name(row), program=program, source=emit(program))


def _name(row: Row) -> str:
    return " ".join(row[name] for name in KEY)


def _rows(rows: list[Row], failed: FailedJobs, search: str) -> Iterator[Row]:
    for row in rows:
        name = _name(row)
        what = failed.get(name)
        yield {
            **{column: row[column] for column in KEY},
            "search": search,
            "status": JobStatus.RIGHT if what is None else what.status,
            "message": failed.unchecked.get(name, "") if what is None else what.message,
        }
