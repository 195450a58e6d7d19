"""Packing of a results tree as one file that others can check: all its files, then the manifest."""

from collections.abc import Mapping
from pathlib import Path

from overlayccl_core.archiving import crate, manifest, packing
from overlayccl_core.archiving.content import content_of
from overlayccl_core.archiving.jobs import JobRecord, jobs_of
from overlayccl_core.archiving.leaks import refuse_leaks
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.archiving.packing import Content, Link
from overlayccl_core.tables.remake import RESULTS
from overlayccl_core.tables.sidecar import sha256_of

SUMS = "sha256sums.txt"
HOW = "HOW-TO-CHECK.md"
ADDED = (manifest.NAME, HOW, crate.NAME, SUMS)  # files besides the tree and the project


def make(tree: Path, target: Path, about: Manifest, root: Path = Path()) -> str:
    """Write the archive of `results/<tree>`; return a line about it. ValueError: a secret in it, or no records."""
    content = content_of(tree, root)
    jobs = jobs_in(content, root, about)
    whole = with_manifest(content, jobs, about)
    refuse_leaks(whole)
    packing.pack(whole, folder_of(about), when(jobs), target)
    size = target.stat().st_size
    return f"{target}: {len(content)} files, {size / 1e6:.1f} MB, sha256 {sha256_of(target)}"


def folder_of(about: Manifest) -> str:
    """Return the one folder of an unpacked archive."""
    return f"overlayccl-{about.tree}"


def when(jobs: list[JobRecord]) -> int:
    """Return the time of all files in an archive: the end of its last job."""
    return int(max(job.ended for job in jobs))


def jobs_in(content: Mapping[str, object], root: Path, about: Manifest) -> list[JobRecord]:
    """Return the jobs that made the files of the tree."""
    files = (name for name in content if Path(name).is_relative_to(Path(RESULTS, about.tree)))
    return jobs_of(root, files, about.measuring, about.nodes)


def with_manifest(content: Content, jobs: list[JobRecord], about: Manifest) -> dict[str, Path | bytes | Link]:
    """Return the archive's whole content. ValueError: records of the jobs, or a script of theirs, are missing."""
    if not jobs:
        raise ValueError(
            "nothing here says how the tables were made: Snakemake's records of them are gone. Make the tree "
            f"again: {about.command}"
        )
    if lacking := {crate.WORKFLOW, *(job.script for job in jobs)} - set(content):
        raise ValueError(f"not there, though it is said to have made tables: {min(lacking) or 'a script'}")
    whole: dict[str, Path | bytes | Link] = {**content, manifest.NAME: about.dumps(), HOW: _how(about)}
    sums = {name: crate.held(_bytes(what)) for name, what in whole.items() if not isinstance(what, Link)}
    whole[crate.NAME] = crate.crate_of(sums, jobs, about)
    sums[crate.NAME] = crate.held(_bytes(whole[crate.NAME]))
    lines = (f"{one.sha256}  {name}\n" for name, one in sorted(sums.items()))
    return whole | {SUMS: "".join(lines).encode()}


def _bytes(what: Path | bytes | Link) -> bytes:
    return what.read_bytes() if isinstance(what, Path) else bytes(what)  # type: ignore[arg-type]  # no Link comes here


def _how(about: Manifest) -> bytes:
    plan = about.command.replace("snakemake ", "snakemake -n ", 1)
    return f"""# {about.tree}

What `{about.command}` left, and the code and configuration that it ran with
({about.commit or "no commit"}{"" if about.clean else ", with changes that were not committed"}).
Measured on: {about.machine}.

- `overlayccl verify FILE{packing.SUFFIX}`, before anything else, with a release of your own: makes everything again
  that needs no ranks (proofs, fit, prices, searches, choice, figures) from the samples in here, compares, and
  names each file of code and configuration in here that is not that release's. It runs none of it.
- `sha256sum -c {SUMS}`: no file was damaged.
- `{plan}`,
  typed in this folder: nothing is to be done. That runs the code in here.
  Without `-n` it makes what you change; what would measure is refused on another machine.
- `{crate.NAME}` is the manifest (a Workflow Run RO-Crate): every file with its sha256, every job
  with what it read, wrote and took.
- `results/{about.tree}/report.html` is the page for people; its tables are Parquet.
""".encode()
