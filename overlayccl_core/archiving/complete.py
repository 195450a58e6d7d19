"""Have measured tables the rows that they ought to have? What was to be measured follows from an archive.

The stages tell: the same functions that make their batches say here which Programs and arms there have to be. So no
row can be left out that speaks against what is deployed, and none is there that nobody asked for. What failed has a
row that says so; in a later launch it is not looked for.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding, guarded, wrong
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.archiving.rows import ArchivedJob, Odd
from overlayccl_core.rule import ALL
from overlayccl_core.tables.rule_job import RUNNER, RuleJob

FOLDER = "archiving/measured"


def complete(folder: Path, plan: Sequence[Planned]) -> Iterator[Finding]:
    """Of each job that measured Programs or arms for `all`, what its tables lack or have too much of.

    What that is `measured/<rule>.py` tells.
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
        yield Finding(check=Check.COMPLETE, subject=name, outcome=CheckOutcome.EXACT)
