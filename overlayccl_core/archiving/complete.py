"""Completeness of measured tables: they must have exactly the rows expected from the archive's configuration.

Stages make their batches with certain functions; the same functions list the expected Programs and arms here. So
nobody can drop a row against a deployed Program, or add one. A failure has a row with its status; the job is not
expected in later launches.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding, guarded, judged, wrong
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.archiving.rows import ArchivedJob, Odd
from overlayccl_core.rule import ALL
from overlayccl_core.tables.rule_job import RUNNER, RuleJob

FOLDER = "archiving/measured"


def complete(folder: Path, plan: Sequence[Planned]) -> Iterator[Finding]:
    """Check the tables of each job that measured Programs or arms for `all`: missing rows, and rows too many.

    `measured/<rule>.py` gives the expected rows.
    """
    known = loader.names(FOLDER)
    for job in plan:
        told = RuleJob.of(job.words[job.words.index(RUNNER) + 1 :])
        if job.target == ALL and told.rule in known:
            odd = loader.load(FOLDER, told.rule).complete(ArchivedJob(folder, told))
            yield from guarded(Check.COMPLETE, job.name, _looked_at(job.name, odd))


def _looked_at(name: str, odd: Iterator[Odd]) -> Iterator[Finding]:
    found = list(odd)
    for one in found:
        if one.open:
            yield Finding(
                check=Check.COMPLETE, subject=name, outcome=CheckOutcome.COULD_NOT, message=one.message
            )
        else:
            yield wrong(Check.COMPLETE, name, one.message)
    if not found:
        yield judged(Check.COMPLETE, name)
