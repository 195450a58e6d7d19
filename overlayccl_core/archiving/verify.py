"""Verification of an archive by other people: bytes, manifest, tables, proofs, and everything derived."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from overlayccl_core import loader
from overlayccl_core.archiving import make, manifest, packing, replay
from overlayccl_core.archiving.code_in import code_in
from overlayccl_core.archiving.consistent import consistent
from overlayccl_core.archiving.content import content_of
from overlayccl_core.archiving.files import files
from overlayccl_core.archiving.findings import Check, CheckOutcome, Finding, guarded, judged, wrong
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.archiving.packing import Link
from overlayccl_core.archiving.proofs import proofs
from overlayccl_core.tables.page import OF_COMMANDS, TABLES
from overlayccl_core.tables.remake import RESULTS
from overlayccl_core.tables.rows import TableError
from overlayccl_core.tables.sidecar import path_of, read_unchanged, sha256_of

Progress = Callable[[str], None]


def verify(archive: Path, workers: int, progress: Progress) -> Iterator[Finding]:
    """Yield all findings, one after the other. An unreadable archive is a wrong one."""
    yield from guarded(Check.BYTES, archive.name, _looked_at(archive, workers, progress))


def _looked_at(archive: Path, workers: int, progress: Progress) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as place:
        try:
            folder = packing.unpack(archive, Path(place, "archive"))
            about = Manifest.loads((folder / manifest.NAME).read_bytes())
        except (ValueError, OSError) as error:
            yield wrong(Check.BYTES, archive.name, str(error))
            return
        command = list(guarded(Check.CONFIGURATION, manifest.NAME, _command(folder, about)))
        yield from command
        wrongly = any(one.outcome is CheckOutcome.WRONG for one in command)
        progress(f"{archive.name}: {about.tree}" + ("" if wrongly else f", made by {about.command}"))
        content = content_of(Path(RESULTS, about.tree), folder, folder)
        jobs = make.jobs_in(content, folder, about)
        try:
            whole = make.with_manifest(content, jobs, about)
        except ValueError as error:
            yield wrong(Check.MANIFEST, archive.name, str(error))
            return
        yield from guarded(Check.MANIFEST, archive.name, _manifest(folder, whole))
        yield _bytes(archive, folder, whole, make.when(jobs), about)
        progress("its tables")
        yield from guarded(Check.TABLES, about.tree, _tables(folder, about))
        progress("proofs of what was timed")
        yield from guarded(Check.PROOFS, about.tree, proofs(folder / RESULTS / about.tree))
        progress("what needs no ranks, again")
        try:
            plan, without = replay.planned(folder, about)
        except ValueError as error:
            yield wrong(Check.CONFIGURATION, archive.name, str(error))
            return
        yield from without
        same = []
        for finding, job in replay.told(folder, plan, jobs):
            yield finding
            if job is not None and finding.outcome is not CheckOutcome.COULD_NOT:
                same.append(job)
        yield from loader.load("archiving", "complete").complete(
            folder, same
        )  # imports stages: a level above
        yield from consistent(folder / RESULTS / about.tree, about.machine)
        yield from guarded(Check.FILES, about.tree, files(folder, about, plan, jobs))
        yield from guarded(Check.CODE, about.tree, code_in(folder, about))
        yield from replay.made_again(folder, Path(place, "again"), same, workers)


def _command(folder: Path, about: Manifest) -> Iterator[Finding]:
    """Check the stated command against the stated configuration: readers will type it."""
    command = manifest.command_of(about.profile, about.config, folder)
    why = f"it says {about.command!r} where its configuration says {command!r}"
    yield judged(Check.CONFIGURATION, f"{manifest.NAME}: command", "" if command == about.command else why)


def _manifest(folder: Path, whole: dict[str, Path | bytes | Link]) -> Iterator[Finding]:
    """Check manifest and checksums against the files."""
    paths = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    there = {path.relative_to(folder).as_posix() for path in paths}
    for name in sorted(there - set(whole)):
        yield wrong(Check.MANIFEST, name, "an archive of ours does not hold it")
    sums = dict(_sums(folder / make.SUMS))
    for name, what in sorted(whole.items()):
        if isinstance(what, Link) or name == make.SUMS:
            continue
        why = ""
        if name in make.ADDED and what != (folder / name).read_bytes():
            why = "it does not follow from the files that are here"
        elif sums.get(name) != sha256_of(folder / name):
            why = f"its sha256 is not that in {make.SUMS}: it was changed"
        yield judged(Check.MANIFEST, name, why)
    for name in sorted(set(sums) - set(whole)):
        yield wrong(Check.MANIFEST, name, f"{make.SUMS} names it, and it is not here")


def _sums(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text().splitlines() if file.exists() else ():
        sha256, _, name = line.partition("  ")
        yield name, sha256


def _bytes(
    archive: Path, folder: Path, whole: dict[str, Path | bytes | Link], when: int, about: Manifest
) -> Finding:
    """Pack the same files again and compare the bytes, before compression if Zstandard is of another version."""
    again = folder.parent / archive.name
    packing.pack(whole, make.folder_of(about), when, again)
    if again.read_bytes() == archive.read_bytes():
        return judged(Check.BYTES, archive.name)
    if _unpacked_sha256(again) != _unpacked_sha256(archive):
        return wrong(Check.BYTES, archive.name, "packing these files does not give this archive")
    if about.zstandard == packing.ZSTANDARD:
        return wrong(Check.BYTES, archive.name, "its compression is not that of these files")
    why = f"equal before compression; that is of Zstandard {about.zstandard}, here is {packing.ZSTANDARD}"
    return Finding(check=Check.BYTES, subject=archive.name, outcome=CheckOutcome.WITHIN, message=why)


def _unpacked_sha256(archive: Path) -> str:
    digest = hashlib.sha256()
    for chunk in packing.tar_chunks(archive):
        digest.update(chunk)
    return digest.hexdigest()


def _tables(folder: Path, about: Manifest) -> Iterator[Finding]:
    """Check every table against its schema and sidecar, and its inputs against the files here."""
    known = {table.name: table for table in (*TABLES, *OF_COMMANDS)}
    for path in sorted((folder / RESULTS / about.tree).rglob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        if path.stem not in known:
            yield wrong(Check.TABLES, name, "no table of ours has this name")
            continue
        try:
            read_unchanged(known[path.stem], path)
            of_a_job = known[path.stem] in TABLES
            inputs = json.loads(path_of(path).read_bytes())["inputs"] if of_a_job else {}
        except (TableError, OSError, ValueError, KeyError) as error:
            yield wrong(Check.TABLES, name, str(error).replace(f"{folder}/", ""))
            continue
        changed = [one for one, sha256 in inputs.items() if not _is(folder / one, sha256)]
        why = f"it was made of another {changed[0]} than the one here" if changed else ""
        yield judged(Check.TABLES, name, why)


def _is(file: Path, sha256: str) -> bool:
    return file.is_file() and sha256_of(file) == sha256
