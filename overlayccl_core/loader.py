"""Plug-ins by the name of their file: the only place that imports by a name computed at run time.

A plug-in NAME of a folder is `folder/NAME.py`, or, where it needs several files, `folder/NAME/backend.py`.
"""

import difflib
import importlib
import re
from pathlib import Path
from types import ModuleType

PACKAGE = "overlayccl_core"
ROOT = Path(__file__).resolve().parent
MAIN_FILE = "backend.py"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_handed_out: set[Path] = set()


def names(folder: str) -> tuple[str, ...]:
    """The plug-ins of a folder, sorted."""
    home = ROOT / folder
    if not home.is_dir():
        raise ValueError(f"there is no folder {PACKAGE}/{folder}")
    if any(home.glob(f"*/{MAIN_FILE}")):
        return tuple(sorted(path.parent.name for path in home.glob(f"*/{MAIN_FILE}")))
    return tuple(sorted(path.stem for path in home.glob("*.py") if path.stem != "__init__"))


def path(folder: str, name: str) -> Path:
    """The file of a plug-in. ValueError naming those there are."""
    known = names(folder)
    if not _NAME.fullmatch(name) or name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(
            f"there is no {name!r} in {PACKAGE}/{folder}: {hint}There are: {', '.join(known) or 'none'}"
        )
    alone = ROOT / folder / f"{name}.py"
    return alone if alone.is_file() else ROOT / folder / name / MAIN_FILE


def load(folder: str, name: str) -> ModuleType:
    """The module of a plug-in. ValueError naming those there are."""
    file = path(folder, name)
    _handed_out.add(file)
    dotted = file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return importlib.import_module(f"{PACKAGE}.{dotted}")


def source(folder: str, name: str) -> str:
    """The text of a plug-in that is read and never imported (a strategy file)."""
    file = path(folder, name)
    _handed_out.add(file)
    return file.read_text()


def data(file: str) -> str:
    """The text of a data file of the package (`program/program.schema.json`)."""
    found = ROOT / file
    if not found.is_file():
        raise ValueError(f"there is no file {PACKAGE}/{file}")
    _handed_out.add(found)
    return found.read_text()


def handed_out() -> frozenset[Path]:
    """Every file that this process got from here: all of them belong to a rule's code digest."""
    return frozenset(_handed_out)
