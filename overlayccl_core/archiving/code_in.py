"""The code that lies in an archive: is it what made the tree? Somebody may run it. It is read here, never run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving.again import Planned
from overlayccl_core.archiving.content import CODE
from overlayccl_core.archiving.findings import Check, Finding, Outcome, wrong
from overlayccl_core.archiving.jobs import Job, by_file
from overlayccl_core.archiving.said import Said, commit_of, versions
from overlayccl_core.digest import ROOT, Sources
from overlayccl_core.project import home

PROJECT = (
    "Snakefile",
    "rules",
    "profiles",
    "envs",
)  # of the folder in which Snakemake ran: one's own to edit
PLUG_INS = (
    *("problems", "strategies", "backends", "workloads", "rewrites/rules"),
    *("search/proposers", "search/styles", "search/prompts", "training/models"),
)  # folders of the package to which one adds


def code_in(folder: Path, about: Said, plan: Sequence[Planned], jobs: Sequence[Job]) -> Iterator[Finding]:
    """Of each job whether the code here has its digest; of each file of code whether it is this release's."""
    own = folder / loader.OF_PROJECT
    sources = Sources(folder, [own] if own.is_dir() else [])
    recorded = by_file(jobs)
    ours = True
    for job in plan:
        before = recorded.get(job.outputs[0])
        if before is not None and before.code:
            ours = ours and before.code in job.codes
            yield _of_job(sources, job, before)
    commit = commit_of(ROOT) if (ROOT / ".git").exists() else ("", False)
    claim = Claim.of(about, versions()["version"], *commit, same_code=ours)
    yield from _as_here(folder, home(), (*PROJECT, loader.OF_PROJECT), claim)
    yield from _as_here(folder, ROOT, CODE, claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an archive says of the code in it. commit: that all of it is this release's; packages: that these are,
    but for plug-ins."""

    commit: bool
    packages: bool

    @classmethod
    def of(cls, about: Said, version: str, commit: str, clean: bool, *, same_code: bool) -> "Claim":
        """version, commit, clean: of this release; its commit is empty where git does not know it.

        same_code: all jobs have the digests of this release. Of another commit there is nothing to say here; one of
        a project in which a wheel is used is not the package's.
        """
        if about.version != version or not same_code or (about.commit and not about.clean):
            return cls(commit=False, packages=False)
        if about.commit and commit:
            same = clean and about.commit == commit
            return cls(commit=same, packages=same)
        return cls(commit=False, packages=True)

    def refutes(self, name: str, known: bool) -> bool:
        """Whether a file that is not this release's is not what the archive says. known: this release has one."""
        first, *below = Path(name).parts
        if first == loader.OF_PROJECT or first not in CODE:
            return self.commit and first != loader.OF_PROJECT
        is_plug_in = "/".join(below).startswith(tuple(f"{one}/" for one in PLUG_INS))
        return self.commit or (self.packages and (known or not is_plug_in))


def _of_job(sources: Sources, job: Planned, before: Job) -> Finding:
    try:
        digest = sources.digest(job.script, *job.plugins)
    except ValueError as error:  # a plug-in of a folder that nobody archived
        return Finding(check=Check.CODE, subject=job.name, outcome=Outcome.COULD_NOT, message=str(error))
    if digest != before.code:
        return wrong(Check.CODE, job.name, f"the code here has digest {digest}, and {before.code} made it")
    return Finding(check=Check.CODE, subject=job.name, outcome=Outcome.EXACT)


def _as_here(folder: Path, release: Path, parts: Sequence[str], claim: Claim) -> Iterator[Finding]:
    """To the byte: a digest does not count comments, and how Python reads a file may stand in one."""
    for part in parts:
        for file in sorted(one for one in (folder / part, *(folder / part).rglob("*")) if one.is_file()):
            name = file.relative_to(folder).as_posix()
            mine = release / name
            known = mine.is_file() and part != loader.OF_PROJECT
            if known and mine.read_bytes() == file.read_bytes():
                yield Finding(check=Check.CODE, subject=name, outcome=Outcome.EXACT)
            elif claim.refutes(name, known):
                why = "it is not this release's, which the archive says that it is of: do not run it"
                yield wrong(Check.CODE, name, why)
            else:
                why = "it is not this release's: read it before you run it"
                yield Finding(check=Check.CODE, subject=name, outcome=Outcome.WITHIN, message=why)
