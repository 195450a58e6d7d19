"""The code and configuration in an archive: compared with this release, read and never run."""

from collections.abc import Iterator
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving.content import CODE, PROJECT, files_of
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding
from overlayccl_core.archiving.manifest import Manifest, commit_of
from overlayccl_core.digest import ROOT
from overlayccl_core.project import home


def code_in(folder: Path, about: Manifest) -> Iterator[Finding]:
    """Compare each file with this release's, to the byte: even comments can change how Python reads a file.

    A changed or missing file is wrong if the archive claims this very commit; otherwise it is reported for reading.
    """
    here = commit_of(ROOT) if (ROOT / ".git").exists() else ("", False)
    same_commit = about.clean and here == (about.commit, True)
    for release, parts in ((home(), PROJECT), (ROOT, CODE)):
        for part in parts:
            own = part == loader.OF_PROJECT
            there = (one for one in (folder / part, *(folder / part).rglob("*")) if one.is_file())
            names = {one.relative_to(folder).as_posix() for one in there}
            if not own:
                names |= {one.relative_to(release).as_posix() for one in files_of(release / part)}
            for name in sorted(names):
                yield _as_here(name, folder / name, release / name, wrong=same_commit and not own)


def _as_here(name: str, file: Path, mine: Path, *, wrong: bool) -> Finding:
    if mine.is_file() and file.is_file() and mine.read_bytes() == file.read_bytes():
        return Finding(check=Check.CODE, subject=name, outcome=CheckOutcome.EXACT)
    why = "it is not this release's: read it before you run it"
    if not file.is_file():
        why = "this release has it, and it was taken out: see what is without it before you run that"
    outcome = CheckOutcome.WRONG if wrong else CheckOutcome.WITHIN
    return Finding(check=Check.CODE, subject=name, outcome=outcome, message=why)
