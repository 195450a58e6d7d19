"""What stands beside an archive's tables, by which people judge them: does it agree with Snakemake's records?"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath

import polars as pl

from overlayccl_core.archiving.again import ALL, SIDECAR, Planned
from overlayccl_core.archiving.findings import Check, Finding, Outcome, wrong
from overlayccl_core.archiving.jobs import CODE_DIGEST, Job, by_file
from overlayccl_core.archiving.said import Said
from overlayccl_core.tables.remake import RESULTS

SLACK_S = 5.0  # between the clocks of a job, of its command and of who writes the record
LOGS, ANSWERS = "logs", "answers"  # folders of files that are no job's outputs: what commands and models said
OF_JOB = re.compile(r"([\w.+@-]+)\.(?:log|tsv)|([\w.+@-]+)\.failure-\d+/(?:launch[\w.-]*|rank-\d+\.error)")
OF_MODEL = re.compile(r"[0-9a-f]{64}(\.asked-[0-9a-f]{8})?\.json")
FINGERPRINT = "fingerprint"  # the column of all that is measured


def as_recorded(folder: Path, about: Said, plan: Sequence[Planned], jobs: Sequence[Job]) -> Iterator[Finding]:
    """Of each file that nobody made, each job and each measured table what does not agree."""
    tree = folder / RESULTS / about.tree
    made = {name for of in (plan, jobs) for job in of for name in job.outputs}
    logged = {*_logged(plan), *_logged(jobs)}
    for file in sorted(one for one in tree.rglob("*") if one.is_file()):
        name = file.relative_to(folder).as_posix()
        if name not in made and (found := _nobodys(PurePosixPath(name), logged)) is not None:
            yield found
    recorded = by_file(jobs)
    for job in plan:
        before = recorded.get(job.outputs[0])
        if before is not None and job.target == ALL:
            why = next(_against(folder, about, job, before), "")
            outcome = Outcome.WRONG if why else Outcome.EXACT
            yield Finding(check=Check.RECORDS, subject=job.name, outcome=outcome, message=why)
    for file in sorted(tree.rglob("*.parquet")):
        yield from _measured_on(file, file.relative_to(folder).as_posix(), about)


def _logged(jobs: Sequence[Planned] | Sequence[Job]) -> Iterator[PurePosixPath]:
    """As what the files that jobs leave beside their logs are called, without suffixes."""
    for job in jobs:
        for log in job.log:
            yield PurePosixPath(log).with_suffix("")
            yield PurePosixPath(log).with_name(job.rule)


def _nobodys(name: PurePosixPath, logged: set[PurePosixPath]) -> Finding | None:
    """What is said of a file that is no job's output; None: it is a job's log, or what a model answered."""
    logs = next((folder for folder in name.parents if folder.name == LOGS), None)
    if logs is not None and (match := OF_JOB.fullmatch(name.relative_to(logs).as_posix())):
        if logs / (match[1] or match[2]) in logged:
            return None
        why = "no job that is here has this log: what it says is taken as said"
        return Finding(check=Check.RECORDS, subject=str(name), outcome=Outcome.COULD_NOT, message=why)
    if name.parent.name == ANSWERS and OF_MODEL.fullmatch(name.name):
        return None
    return wrong(Check.RECORDS, str(name), "no job made it")


def _against(folder: Path, about: Said, job: Planned, before: Job) -> Iterator[str]:
    """What does not agree of a job."""
    if (before.rule, before.name) != (job.rule, job.name):
        yield f"its record is of {before.rule}, with the log of {before.name}"
    if besides := set(before.inputs) ^ set(job.inputs):
        yield f"only one of the two, its record and the rules, has {min(besides)} among what it read"
    if besides := set(before.outputs) - set(job.outputs):
        yield f"{min(besides)} is said to be of it, too"
    words = _without_codes(shlex.split(job.command))
    if _without_codes(shlex.split(before.command)) != words:
        yield "its record has another command than the rules"
    if job.alone and about.machine not in before.parameters:
        yield f"its record does not have the machine that {about.machine!r} is"
    words = words[: words.index("&&")] if "&&" in words else words
    inputs = _after(words, "--inputs")
    for file in (folder / name for name in job.outputs if name.endswith(SIDECAR)):
        beside = json.loads(file.read_bytes())
        if _without_codes(beside["command"]) != words:
            yield f"{file.name} has another command than the rules"
        if set(beside["inputs"]) != set(inputs):
            yield f"{file.name} was made of other files than the rules say"
        began, ended = (
            datetime.fromisoformat(beside[name]).timestamp() for name in ("started_utc", "ended_utc")
        )
        if not before.started - SLACK_S <= began <= ended <= before.ended + SLACK_S:
            yield f"{file.name} has times outside of its record's"
        if (seconds := _seconds(folder, about, job)) is not None and not (
            ended - began - SLACK_S <= seconds <= before.seconds + SLACK_S
        ):
            yield f"its benchmark file has {seconds:.0f} s, its record {before.seconds:.0f} s"


def _after(words: Sequence[str], option: str) -> list[str]:
    """The values of an option of several."""
    if option not in words:
        return []
    rest = words[words.index(option) + 1 :]
    return list(rest[: next((k for k, word in enumerate(rest) if word.startswith("--")), len(rest))])


def _without_codes(words: Sequence[str]) -> list[str]:
    """A command without the digests of its code, which another release has others of."""
    return [word for word in words if not CODE_DIGEST.fullmatch(word)]


def _seconds(folder: Path, about: Said, job: Planned) -> float | None:
    """What Snakemake's benchmark file of a job says; the report tells it."""
    file = folder / RESULTS / about.tree / "logs" / f"{job.name}.tsv"
    return float(pl.read_csv(file, separator="\t")["s"][0]) if file.exists() else None


def _measured_on(file: Path, name: str, about: Said) -> Iterator[Finding]:
    if FINGERPRINT in pl.read_parquet_schema(file):
        others = set(pl.read_parquet(file, columns=[FINGERPRINT])[FINGERPRINT].drop_nulls()) - {about.machine}
        if others:
            yield wrong(
                Check.RECORDS, name, f"measured on {min(others)}, where all is said to be of {about.machine}"
            )
