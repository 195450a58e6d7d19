"""The files in deploy/, imported by scripts: no Case of them is dropped silently.

Snakemake declares only the records beside them. It deletes a job's declared outputs before the job, and a
script may be using the files.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.tables.atomic import write_bytes
from overlayccl_core.tables.sidecar import sha256_of

FOLDER, EARLIER = "deploy", "earlier"  # deploy/earlier: previous files, for other Cases
TABLE = "ENTRIES"  # a module's table: Case -> entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A previously deployed file, and its Cases that today's file lacks."""

    path: Path
    cases: tuple[str, ...]


def cases_of(source: str) -> tuple[str, ...]:
    """Return the Cases of a deployed module, without running it; () for a text that does not parse."""
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
    """Return the output with a file's Snakemake record: for a module the JSON beside it, else the file itself."""
    return file.with_suffix(".json") if file.parent.name == FOLDER and file.suffix == ".py" else file


def modules(outputs: Iterable[Path]) -> Iterator[Path]:
    """Yield the modules declared in these outputs; unreadable outputs declare none."""
    return (module for module, told in _told(outputs) if told)


def not_as_confirmed(outputs: Iterable[Path]) -> Iterator[Path]:
    """Yield modules unlike these outputs: missing, with another text, or present although undeclared."""
    return (
        module for module, told in _told(outputs) if told != (sha256_of(module) if module.exists() else None)
    )


def _told(outputs: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    """Yield a module and the sha256 in the record beside it; None: there is to be no module."""
    for path in outputs:
        with suppress(OSError, ValueError, KeyError):
            if path.parent.name == FOLDER and path.suffix == ".json":
                yield path.with_suffix(".py"), json.loads(path.read_bytes())["module"]


def publish(file: Path, source: str | None, tell: Callable[[str], None]) -> None:
    """Write a module atomically; None removes it.

    If the old file has a Case that the new one lacks, the folder `earlier` keeps it. Older files there stay
    only for Cases in neither of the two.

    Args:
        tell: Receives a line for each file kept or removed.
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
    """Return a free name (`grad_ar_2.py`), or the name of an equal text."""
    number, path = 1, wanted
    while path.exists() and path.read_text() != text:
        number += 1
        path = wanted.with_stem(f"{wanted.stem}_{number}")
    return path


def earlier(tree: Path) -> Iterator[Earlier]:
    """Yield previously deployed files of a results tree with Cases that today's file lacks."""
    folder = tree / FOLDER
    for path in sorted((folder / EARLIER).glob("*.py")):
        problem = next(iter(cases_of(path.read_text())), "").partition("/")[0]
        today = folder / f"{problem}.py"
        there = cases_of(today.read_text()) if today.exists() else ()
        if lacking := tuple(case for case in cases_of(path.read_text()) if case not in there):
            yield Earlier(path=path, cases=lacking)
