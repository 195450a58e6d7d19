"""Plug-ins by the name of their file: the only place that imports by a name computed at run time.

A plug-in NAME of a folder is the file `folder/NAME.py`. Only a backend is a folder, `backends/NAME/`, whose main
file is `backend.py`; another file of it (a `part`) is loaded apart: only the rule that needs it depends on it.

It is in this package, or in a folder of your own that is laid out like it: OVERLAYCCL_PLUGINS names such folders,
with `:` between them; without it, the folder `plugins` of a project counts. `~/plugins/backends/mine/backend.py` is
then the backend `mine`, imported as `overlayccl_core.backends.mine.backend` like those that are here.

What is imported is the package's where both have it. A strategy file is read and never imported: there your own
takes the place of the package's, so that a known Problem gets a strategy of yours. A file of ways
(`strategies/ways/sums.py`) is read, too: there your own is added to the package's.
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
MAIN_PART = {"backends": "backend"}  # folder -> the main file of its plug-ins, where they are folders
VARIABLE = "OVERLAYCCL_PLUGINS"
SAFE_PATH = "PYTHONSAFEPATH"  # tells a Python to import nothing from the folder that it begins in
OF_PROJECT = "plugins"
READ = "strategies"  # the folder whose files are read and never imported
P = TypeVar("P")  # a protocol: what plug-ins of one kind define
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_handed_out: set[Path] = set()
_loaded: dict[Path, ModuleType] = {}


def roots() -> tuple[Path, ...]:
    """The package, then the folders that OVERLAYCCL_PLUGINS names.

    NotADirectoryError for one that is not there: no ValueError, since whatever field or file is being read, it is
    not to blame.
    """
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    for folder in named:
        if not folder.is_dir():
            raise NotADirectoryError(
                f"{VARIABLE}: there is no folder {folder}: name folders laid out like {PACKAGE}/, or unset it"
            )
    return (ROOT, *(folder.resolve() for folder in named))


def use_project(root: Path) -> None:
    """Let the folder `plugins` of a project count, here and in all that is started from here."""
    own = root / OF_PROJECT
    if own.is_dir() and VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(own.resolve())


def names(folder: str) -> tuple[str, ...]:
    """The plug-ins of a folder, sorted."""
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
    """The file of a plug-in, or the part `folder/NAME/<part>.py` of it. ValueError naming those there are."""
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
    """The file of that path in the package, or in the first of one's own folders that has it; where it is read, in
    these first."""
    return next((file for root in order(below, roots()) if (file := root / below).is_file()), None)


def order(below: str, homes: Sequence[Path]) -> Sequence[Path]:
    """In which order folders are looked through for a file: the package is the first of `homes`."""
    return (*homes[1:], homes[0]) if below.startswith(f"{READ}/") else homes


def place(file: Path) -> tuple[Path, Path]:
    """(root, path below it) of a plug-in's file."""
    root = next(root for root in roots() if file.is_relative_to(root))
    return root, file.relative_to(root)


def load(folder: str, name: str, part: str = "") -> ModuleType:
    """The module of a plug-in, or of a part of it. ValueError naming those there are."""
    file = path(folder, name, part)
    _handed_out.add(file)
    root, below = place(file)
    if root != ROOT:
        _join(folder, root)
    _loaded[file] = importlib.import_module(f"{PACKAGE}.{'.'.join(below.with_suffix('').parts)}")
    return _loaded[file]


def plug_in(protocol: type[P], folder: str, name: str, part: str = "") -> P:
    """The module of a plug-in that defines what its protocol declares. ValueError naming what it lacks."""
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
    """What the plug-ins of this process say that they need installed (REQUIRES), sorted."""
    return tuple(sorted({name for module in _loaded.values() for name in getattr(module, "REQUIRES", ())}))


def source(folder: str, name: str) -> str:
    """The text of a plug-in that is read and never imported (a strategy file)."""
    file = path(folder, name)
    _handed_out.add(file)
    return file.read_text()


def sources(folder: str, name: str) -> tuple[str, ...]:
    """The texts of a file that is read, wherever it is: the package's, then those of folders of one's own."""
    files = [file for root in roots() if (file := root / folder / f"{name}.py").is_file()]
    if not files or not _NAME.fullmatch(name):
        path(folder, name)  # says which there are
    _handed_out.update(files)
    return tuple(file.read_text() for file in files)


def module_source(module: str) -> str:
    """The text of a module by its dotted name: one that is printed elsewhere and not imported here."""
    first, _, below = module.partition(".")
    file = _first(f"{below.replace('.', '/')}.py") if first == PACKAGE and below else None
    if file is None:
        raise ValueError(f"there is no module {module} in {PACKAGE} or in a folder that {VARIABLE} names")
    _handed_out.add(file)
    return file.read_text()


def data(file: str) -> str:
    """The text of a data file by its path below the package or a folder of one's own."""
    path = _first(file)
    if path is None:
        raise ValueError(f"there is no file {file} in {PACKAGE} or in a folder that {VARIABLE} names")
    _handed_out.add(path)
    return path.read_text()


def handed_out() -> frozenset[Path]:
    """Every file that this process got from here: all of them belong to a rule's code digest."""
    return frozenset(_handed_out)
