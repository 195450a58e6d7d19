"""The files in deploy/, which scripts import: nothing of them is dropped without a word.

Snakemake declares the records beside them and not the files: it takes away what a job is to write, and a script may
be using it.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.sidecar import sha256_of

FOLDER, EARLIER = "deploy", "earlier"  # the second in the first: what was deployed before, for other Cases
TABLE = "ENTRIES"  # of a module: Case -> what it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A file that was deployed before, and its Cases that the file of today lacks."""

    path: Path
    cases: tuple[str, ...]


def cases_of(source: str) -> tuple[str, ...]:
    """The Cases of a deployed module; nothing of it is run. None of a text that is no module."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return ()
    tables = (
        one.value
        for one in body
        if isinstance(one, ast.Assign) and [ast.unparse(name) for name in one.targets] == [TABLE]
    )
    return tuple(
        str(key.value)
        for table in tables
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant)
    )


def recorded_with(file: Path) -> Path:
    """The output that a file has the record of: of a module the one beside it, of any other file itself."""
    return file.with_suffix(".json") if file.parent.name == FOLDER and file.suffix == ".py" else file


def modules(outputs: Iterable[Path]) -> Iterator[Path]:
    """The modules that these outputs tell of; what cannot be read tells of none."""
    return (module for module, told in _told(outputs) if told)


def not_as_confirmed(outputs: Iterable[Path]) -> Iterator[Path]:
    """The modules that are gone or another text than these outputs tell of, or there where they tell of none."""
    return (
        module for module, told in _told(outputs) if told != (sha256_of(module) if module.exists() else None)
    )


def _told(outputs: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    """A module, and the sha256 that the record beside it tells; None: there is to be none."""
    for path in outputs:
        with suppress(OSError, ValueError, KeyError):
            if path.parent.name == FOLDER and path.suffix == ".json":
                yield path.with_suffix(".py"), json.loads(path.read_bytes())["module"]


def publish(file: Path, source: str | None, tell: Callable[[str], None]) -> None:
    """Write a module, whole or not at all; None: there is none any more.

    Where the file there has a Case that the new one lacks, it is kept in the folder `earlier`. Of files kept before
    only those stay that have a Case which neither of these two has. tell: hears of each file kept or removed.
    """
    before = file.read_text() if file.exists() else ""
    there, now = set(cases_of(before)), set(cases_of(source or ""))
    kept = None
    if there - now:
        kept = _free(file.parent / EARLIER / file.name, before)
        write_bytes(kept, before.encode())
        tell(f"{kept}: what was deployed before, with Cases that {file.name} now lacks")
    for path in (file.parent / EARLIER).glob("*.py"):
        if path != kept and (of := set(cases_of(path.read_text()))) and of <= there | now:
            path.unlink()
            tell(f"{path}: removed: all its Cases are in {file}{f' or {kept}' if kept else ''}")
    if source is None:
        file.unlink(missing_ok=True)
    else:
        write_bytes(file, source.encode())


def _free(wanted: Path, text: str) -> Path:
    """`grad_ar_2.py`, where other files have the names before; the same text has its own."""
    number, path = 1, wanted
    while path.exists() and path.read_text() != text:
        number += 1
        path = wanted.with_stem(f"{wanted.stem}_{number}")
    return path


def earlier(tree: Path) -> Iterator[Earlier]:
    """Of a results tree all that was deployed before and has Cases that nothing has today."""
    folder = tree / FOLDER
    for path in sorted((folder / EARLIER).glob("*.py")):
        problem = next(iter(cases_of(path.read_text())), "").partition("/")[0]
        today = folder / f"{problem}.py"
        there = cases_of(today.read_text()) if today.exists() else ()
        if lacking := tuple(case for case in cases_of(path.read_text()) if case not in there):
            yield Earlier(path=path, cases=lacking)
