"""The code that lies in an archive: is it what made the tree? Somebody may run it. It is read here, never run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving.again import Planned
from overlayccl_core.archiving.findings import Check, Finding, Outcome, wrong
from overlayccl_core.archiving.jobs import Job
from overlayccl_core.digest import ROOT, Sources
from overlayccl_core.project import home

RULES, DISPLAY = ("Snakefile", "rules"), "run_display"  # which no digest of a job holds


def code_in(folder: Path, plan: Sequence[Planned], jobs: Sequence[Job]) -> Iterator[Finding]:
    """Of each job whether the code here has its digest; of what no digest holds whether it is this release's."""
    own = folder / loader.OF_PROJECT
    sources = Sources(folder, [own] if own.is_dir() else [])
    recorded = {job.outputs[0]: job for job in jobs}
    for job in plan:
        before = recorded.get(min(job.outputs))
        if before is not None and before.code:
            yield _of_job(sources, job, before)
    yield from _as_here(folder, home(), RULES)
    yield from _as_here(folder, ROOT, (DISPLAY,))


def _of_job(sources: Sources, job: Planned, before: Job) -> Finding:
    try:
        digest = sources.digest(Path(before.script).stem, *job.plugins)
    except ValueError as error:  # a plug-in of a folder that nobody archived
        return Finding(check=Check.CODE, subject=job.name, outcome=Outcome.COULD_NOT, message=str(error))
    if digest != before.code:
        return wrong(Check.CODE, job.name, f"the code here has digest {digest}, and {before.code} made it")
    return Finding(check=Check.CODE, subject=job.name, outcome=Outcome.EXACT)


def _as_here(folder: Path, release: Path, parts: Sequence[str]) -> Iterator[Finding]:
    for part in parts:
        for file in sorted(one for one in (folder / part, *(folder / part).rglob("*")) if one.is_file()):
            name = file.relative_to(folder).as_posix()
            mine = release / name
            same = mine.is_file() and mine.read_bytes() == file.read_bytes()
            yield Finding(
                check=Check.CODE,
                subject=name,
                outcome=Outcome.EXACT if same else Outcome.WITHIN,
                message="" if same else "it is not this release's: read it before you run it",
            )
