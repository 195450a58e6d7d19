"""Plug-ins by the name of their file: the only imports by a name computed at run time.

A plug-in NAME of a folder is the file `folder/NAME.py`. Only a backend is a folder, `backends/NAME/`, with the main
file `backend.py`; another file of it (a `part`) is loaded apart, so only the rules in need of it depend on it.

It is in this package, or in a folder of your own with the same layout: OVERLAYCCL_PLUGINS names such folders, with
`:` between them; without it, the folder `plugins` of a project counts. `~/plugins/backends/mine/backend.py` is then
the backend `mine`, imported as `overlayccl_core.backends.mine.backend` like those here.

If both have a file, the package's is imported. A strategy file is read and never imported: there your own takes the
place of the package's, to give a known Problem a strategy of yours. A file of ways (`strategies/ways/sums.py`) is
read, too: there your own is added to the package's.
"""

import difflib
import importlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeVar, cast

PACKAGE = "overlayccl_core"
ROOT = Path(__file__).resolve().parent
MAIN_PART = {"backends": "backend"}  # folder -> the main file of its plug-ins, if they are folders
VARIABLE = "OVERLAYCCL_PLUGINS"
SAFE_PATH = "PYTHONSAFEPATH"  # set, it keeps Python from importing from its current folder
OF_PROJECT = "plugins"
READ = "strategies"  # the folder of files read and never imported
P = TypeVar("P")  # the protocol of plug-ins of one kind
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_handed_out: set[Path] = set()
_loaded: dict[Path, ModuleType] = {}


def roots() -> tuple[Path, ...]:
    """Return the package, then the folders of OVERLAYCCL_PLUGINS.

    Raises:
        NotADirectoryError: A folder is not there. It is no ValueError, since the field or file being read is not to
            blame.
    """
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    for folder in named:
        if not folder.is_dir():
            raise NotADirectoryError(
                f"{VARIABLE}: there is no folder {folder}: name folders laid out like {PACKAGE}/, or unset it"
            )
    return (ROOT, *(folder.resolve() for folder in named))


def use_project(root: Path) -> None:
    """Let the folder `plugins` of a project count, here and in all processes started from here."""
    own = root / OF_PROJECT
    if own.is_dir() and VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(own.resolve())


def names(folder: str) -> tuple[str, ...]:
    """Return the plug-ins of a folder, sorted."""
    if not (ROOT / folder).is_dir():
        raise ValueError(f"there is no folder {PACKAGE}/{folder}")
    main = MAIN_PART.get(folder)
    homes = [root / folder for root in roots()]
    if main:
        files = {path.parent.name for home in homes for path in home.glob(f"*/{main}.py")}
    else:
        files = {path.stem for home in homes for path in home.glob("*.py")}
    return tuple(sorted(filter(_NAME.fullmatch, files)))


def path(folder: str, name: str, part: str = "") -> Path:
    """Return the file of a plug-in, or its part `folder/NAME/<part>.py`. ValueError names the known ones."""
    part = part or MAIN_PART.get(folder, "")
    below = f"{folder}/{name}/{part}.py" if part else f"{folder}/{name}.py"
    if _NAME.fullmatch(name) and (file := _first(below)) is not None:
        return file
    known = names(folder)
    if name in known:
        raise ValueError(f"{PACKAGE}/{folder}/{name} has no {part}.py: it needs one")
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(
        f"there is no {name!r} in {PACKAGE}/{folder}: {hint}There are: {', '.join(known) or 'none'}"
    )


def _first(below: str) -> Path | None:
    """Return the first file of that path: of the package, then of your own folders; yours first, if it is read."""
    return next((file for root in order(below, roots()) if (file := root / below).is_file()), None)


def order(below: str, homes: Sequence[Path]) -> Sequence[Path]:
    """Order the folders of a search for a file: the package is the first of `homes`."""
    return (*homes[1:], homes[0]) if below.startswith(f"{READ}/") else homes


def place(file: Path) -> tuple[Path, Path]:
    """Return (root, path below it) of a plug-in's file."""
    root = next(root for root in roots() if file.is_relative_to(root))
    return root, file.relative_to(root)


def load(folder: str, name: str, part: str = "") -> ModuleType:
    """Import a plug-in, or a part of it. ValueError names the known ones."""
    file = path(folder, name, part)
    _handed_out.add(file)
    root, below = place(file)
    if root != ROOT:
        _join(folder, root)
    _loaded[file] = importlib.import_module(f"{PACKAGE}.{'.'.join(below.with_suffix('').parts)}")
    return _loaded[file]


def plug_in(protocol: type[P], folder: str, name: str, part: str = "") -> P:
    """Import a plug-in with all definitions of its protocol. ValueError names the missing ones."""
    module = load(folder, name, part)
    declared = (*vars(protocol).get("__annotations__", ()), *vars(protocol))
    if missing := [x for x in declared if not x.startswith("_") and not hasattr(module, x)]:
        raise ValueError(
            f"{path(folder, name, part)} does not define {', '.join(missing)}: "
            f"{protocol.__name__} in {protocol.__module__} says what each of them is"
        )
    return cast(P, module)


def _join(folder: str, root: Path) -> None:
    """Let a folder of the package have modules in a folder of yours too."""
    package = importlib.import_module(f"{PACKAGE}.{folder.replace('/', '.')}")
    if str(root / folder) not in package.__path__:
        package.__path__.append(str(root / folder))


def required() -> tuple[str, ...]:
    """Return the requirements of this process's plug-ins (REQUIRES), sorted."""
    return tuple(sorted({name for module in _loaded.values() for name in getattr(module, "REQUIRES", ())}))


def source(folder: str, name: str) -> str:
    """Return the text of a plug-in read and never imported (a strategy file)."""
    file = path(folder, name)
    _handed_out.add(file)
    return file.read_text()


def sources(folder: str, name: str) -> tuple[str, ...]:
    """Return the texts of a file to be read, of all folders: the package's, then your own."""
    files = [file for root in roots() if (file := root / folder / f"{name}.py").is_file()]
    if not files or not _NAME.fullmatch(name):
        path(folder, name)  # raises, with the known ones
    _handed_out.update(files)
    return tuple(file.read_text() for file in files)


def module_source(module: str) -> str:
    """Return the text of a module of ours by its dotted name: for printing elsewhere, without importing it here."""
    return data(f"{module.removeprefix(f'{PACKAGE}.').replace('.', '/')}.py")


def data(file: str) -> str:
    """Return the text of a data file by its path below the package or a folder of your own."""
    path = _first(file)
    if path is None:
        raise ValueError(f"there is no file {file} in {PACKAGE} or in a folder that {VARIABLE} names")
    _handed_out.add(path)
    return path.read_text()


def handed_out() -> frozenset[Path]:
    """Return every file this process got from here: all of them belong to a rule's code digest."""
    return frozenset(_handed_out)
