"""Repetition of all jobs without ranks, by this release's rules from an archive's tables, and comparison.

Each job reads the archive's tables, not the new output of the job before it: a table that does not follow from
its inputs is found at its own job, and nowhere else.
"""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core import loader
from overlayccl_core.archiving import searched
from overlayccl_core.archiving.compare_files import difference
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding, could_not, guarded, wrong
from overlayccl_core.archiving.jobs import CODE_DIGEST, STAGE, JobRecord
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.project import home
from overlayccl_core.rule import ALL, targets
from overlayccl_core.tables.remake import RESULTS

LONGEST_S = 3600.0
OURS = ("OVERLAYCCL_", "SNAKEMAKE_")  # prefixes of variables that change our runs
SIDECAR = ".sidecar.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A job of the rules for files of the archive. alone: it starts ranks. target: its Snakemake target."""

    target: str
    rule: str
    command: str
    outputs: tuple[str, ...]
    log: tuple[str, ...]
    parameters: tuple[str, ...]
    alone: bool

    @property
    def name(self) -> str:
        """Name of its log: `known_ways-tp_mlp`."""
        return Path(self.log[0]).stem if self.log else self.rule

    @property
    def words(self) -> list[str]:
        """Words of its own command, up to `&&`."""
        words = shlex.split(self.command)
        return words[: words.index("&&")] if "&&" in words else words

    @property
    def codes(self) -> tuple[str, ...]:
        """Code digests among its parameters."""
        return tuple(word for p in self.parameters if CODE_DIGEST.fullmatch(word := p.strip("'")))


def planned(folder: Path, about: Manifest) -> tuple[list[Planned], list[Finding]]:
    """Return the jobs of this release's rules for an archive, and findings for unknown targets.

    Raises:
        ValueError: There are no rules for the target `all`.
    """
    found: dict[tuple[str, ...], Planned] = {}
    without: list[Finding] = []
    for target in (ALL, *(name for name in targets() if (folder / RESULTS / about.tree / name).is_dir())):
        request = {"snakefile": str(home() / "Snakefile"), "config": about.config, "target": target}
        done = _python(folder, ["-m", "workflow_scripts.planned"], json.dumps(request))
        if done.returncode == 0:
            told = ({key: _tuple(value) for key, value in job.items()} for job in json.loads(done.stdout))
            found = {job.outputs: job for job in (Planned(target=target, **one) for one in told)} | found
            continue
        why = f"the rules of this release do not make what is here: {done.stderr.strip()[-600:]}"
        if target == ALL:
            raise ValueError(why)
        without.append(could_not(Check.CONFIGURATION, target, why))
    return list(found.values()), without


def told(
    folder: Path, plan: Sequence[Planned], jobs: Sequence[JobRecord]
) -> Iterator[tuple[Finding, Planned | None]]:
    """Yield a finding for each job: do its command and code follow from the configuration? None: an unplanned job.

    A job for `all` must follow the archive's command. A job of another target may have had other settings; a
    mismatch there only counts as "could not".
    """
    asked = {file for job in plan for file in job.outputs}
    for other in (job for job in jobs if asked.isdisjoint(job.outputs)):
        why = "the configuration in here does not ask for it: another command made it"
        yield could_not(Check.CONFIGURATION, f"{other.name} ({other.outputs[0]})", why), None
    recorded = {file: job for job in jobs for file in job.outputs}
    for job in plan:
        outcome, why = _told(folder, job, recorded.get(job.outputs[0]))
        if outcome is CheckOutcome.WRONG and job.target != ALL:
            outcome = CheckOutcome.COULD_NOT
        yield Finding(check=Check.CONFIGURATION, subject=job.name, outcome=outcome, message=why), job


def _told(folder: Path, job: Planned, before: JobRecord | None) -> tuple[CheckOutcome, str]:
    """Compare a job with the record of its first file, and with its sidecars, the report's source of settings."""
    if before is None:
        return CheckOutcome.WRONG, f"no record tells how {job.outputs[0]} was made"
    if odd := _odd(job, before):
        return CheckOutcome.WRONG, f"only one of the two, its record and the configuration in here, has {odd}"
    for name in (one for one in job.outputs if one.endswith(SIDECAR)):
        command = json.loads((folder / name).read_bytes())["command"]
        if _without_codes(command) != _without_codes(job.words):
            return CheckOutcome.WRONG, f"{name} has another command than the rules"
    if before.code and before.code not in job.codes:
        return CheckOutcome.WITHIN, "its code is not that of this release"
    return CheckOutcome.EXACT, ""


def _without_codes(words: Sequence[str]) -> list[str]:
    """Return a command without code digests, which differ between releases."""
    return [word for word in words if not CODE_DIGEST.fullmatch(word)]


def made_again(folder: Path, again: Path, plan: Sequence[Planned], workers: int) -> Iterator[Finding]:
    """Repeat every job without ranks and compare its files; workers: jobs at a time."""
    light = [job for job in plan if not job.alone]
    yield from (could_not(Check.MEASURED, job.name, "") for job in plan if job.alone)

    def looked_at(job: Planned) -> list[Finding]:
        return list(guarded(Check.MADE_AGAIN, job.name, _again(folder, again, job)))

    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(looked_at, light):
            yield from found


def _again(folder: Path, again: Path, job: Planned) -> Iterator[Finding]:
    try:
        words = searched.without_asking(job.words, folder)
    except ValueError as error:
        yield could_not(Check.MADE_AGAIN, job.name, str(error))
        return
    theirs = {*job.outputs, *job.log}
    words = [_elsewhere(word, theirs, again) for word in words]
    if not STAGE.match(job.command):
        yield could_not(Check.MADE_AGAIN, job.name, f"no command of ours: {job.command[:80]}")
        return
    done = _python(folder, words[1:], "")
    if done.returncode:
        yield wrong(Check.MADE_AGAIN, job.name, f"it fails: {done.stderr.strip()[-300:]}")
        return
    left_open = searched.left_open(folder, job.outputs)
    for file in job.outputs:
        if not file.endswith(SIDECAR):
            outcome, message = difference(again / file, folder / file)
            if outcome is CheckOutcome.WRONG and (why := left_open.get(Path(file).stem)):
                outcome, message = CheckOutcome.COULD_NOT, f"{why}: {message}"
            yield Finding(check=Check.MADE_AGAIN, subject=file, outcome=outcome, message=message)


def _elsewhere(word: str, files: Collection[str], folder: Path) -> str:
    """Return a word of a command, PATH or NAME=PATH, with a path among these files moved below a folder."""
    name, equals, path = word.rpartition("=")
    return f"{name}{equals}{folder / path}" if path in files else word


def _python(folder: Path, words: Sequence[str], text: str) -> "subprocess.CompletedProcess[str]":
    """Run our own code on an archive's files, never code from the archive.

    Without named plug-in folders, the archive's would count as a project's. So the verifier's own are named,
    and of the archive only the strategies, which are read and never run.
    """
    named = [os.environ.get(loader.VARIABLE, ""), *map(str, _strategies(folder))]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(OURS)},
        loader.VARIABLE: os.pathsep.join(filter(None, named)),
        loader.SAFE_PATH: "1",
    }
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )


def _strategies(folder: Path) -> list[Path]:
    """Return a plug-in folder with only an archive's strategies; [] if it has none of its own."""
    own, read = folder / loader.OF_PROJECT / loader.READ, folder.parent / loader.READ
    if not own.is_dir():
        return []
    read.mkdir(exist_ok=True)
    if not (read / loader.READ).exists():
        (read / loader.READ).symlink_to(own)
    return [read]


def _odd(job: Planned, before: JobRecord) -> str:
    """Return a parameter, other than code, that one of the two has more often; empty if they agree."""
    theirs = map(repr, before.parameters)  # Snakemake's notation
    mine, those = (
        Counter(p for p in of if not CODE_DIGEST.fullmatch(p.strip("'"))) for of in (job.parameters, theirs)
    )
    return min((mine - those) + (those - mine), default="")[:200]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
