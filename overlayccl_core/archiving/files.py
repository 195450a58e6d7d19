"""The files of an archive that no job made: logs, answers of models, and strays."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import polars as pl

from overlayccl_core.archiving.findings import Check, Finding, could_not, judged, wrong
from overlayccl_core.archiving.jobs import JobRecord
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.archiving.replay import Planned
from overlayccl_core.configuration import captured, presets
from overlayccl_core.configuration.fields import parsed
from overlayccl_core.evidence import redeployment
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.probing import PROBE_CALLS
from overlayccl_core.tables.remake import RESULTS

LOGS, ANSWERS = "logs", "answers"  # folders for output of commands and of models
OF_JOB = re.compile(  # tsv: durations, in trees that earlier versions made
    r"([\w.+@-]+)\.(?:log|tsv|attempts)|([\w.+@-]+)\.failure-\d+/(?:launch[\w.-]*|rank-\d+\.error)"
)
OF_MODEL = re.compile(r"([0-9a-f]{64})(?:\.asked-[0-9a-f]{8})?\.json")


def files(
    folder: Path, about: Manifest, plan: Sequence[Planned], jobs: Sequence[JobRecord]
) -> Iterator[Finding]:
    """Check each file of the tree outside the outputs of this run's jobs."""
    made = {name for of in (plan, jobs) for job in of for name in job.outputs}
    logged = {*_logged(plan), *_logged(jobs)}
    for file in sorted(one for one in (folder / RESULTS / about.tree).rglob("*") if one.is_file()):
        name = file.relative_to(folder)
        if name.as_posix() not in made:
            yield _nobodys(folder, PurePosixPath(name), logged)


def _logged(jobs: Sequence[Planned] | Sequence[JobRecord]) -> Iterator[PurePosixPath]:
    """Yield the paths of jobs' logs, and of files named after their rules, without suffixes."""
    for job in jobs:
        for log in job.log:
            yield PurePosixPath(log).with_suffix("")
            yield PurePosixPath(log).with_name(job.rule)


def _nobodys(folder: Path, name: PurePosixPath, logged: set[PurePosixPath]) -> Finding:
    """Return the finding about a file outside all outputs."""
    logs = next((one for one in name.parents if one.name == LOGS), None)
    if logs is not None and (match := OF_JOB.fullmatch(name.relative_to(logs).as_posix())):
        known = logs / (match[1] or match[2]) in logged
        why = "no job that is here has this log: what it says is taken as said"
    elif name.parent.name == ANSWERS and (match := OF_MODEL.fullmatch(name.name)):
        known = match[1] in _asked(folder / name.parent.parent)
        why = "no search that is here asked for it: what it says is taken as said"
    elif name == PurePosixPath(RESULTS, name.parent.name, presets.FILE):
        fields = parsed(folder / name) or {}
        mine = presets.is_of(name.parent.name, fields) or captured.is_of(folder / name.parent, fields)
        return judged(Check.FILES, str(name), "" if mine else "its tree is of other fields")
    elif name == PurePosixPath(RESULTS, name.parent.name, captured.KEPT):
        known, why = False, "what a script called is taken as said"
    elif name.is_relative_to(RESULTS) and PurePosixPath(*name.parts[2:]).as_posix() in (
        redeployment.KEPT,
        redeployment.KEPT_THETA,
    ):
        known, why = False, "what another tree chose is taken as said"
    else:
        return wrong(Check.FILES, str(name), "no job made it")
    return judged(Check.FILES, str(name)) if known else could_not(Check.FILES, str(name), why)


def _asked(search: Path) -> set[str]:
    """Return the digests of all requests in a search's tables."""
    tables = (search / f"{table.name}.parquet" for table in (CALLS, PROBE_CALLS))
    frames = [pl.read_parquet(file, columns=["digest"]) for file in tables if file.is_file()]
    return {digest for frame in frames for digest in frame["digest"]}
