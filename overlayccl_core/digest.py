"""Identity of a rule's code: a change of it reruns the rule, and no other change does.

A rule runs its stage, `stages/<rule>.py`. Its code is that file and its runner, all their imports from here, the
plug-ins named by the rule's wildcards, and the data files mentioned in any of these. Comments, docstrings and
formatting do not count: the syntax tree is hashed, in a form common to all our versions of Python. Texts for
people, of a configuration field or a table's column (`WORDS`), do not count either. A docstring used by code
(`TOLD`), as a search uses a rewrite rule's, counts for the rules with that code.

The closure follows these, read from the source without running it:
  imports of modules of ours, with the packages above them;
  "overlayccl_core.backends.torch_ranks.timer": a module's dotted name in a string, as it is run by `python -m`;
  "program.schema.json": a data file's name in a string, beside the module or counted from the package.
A plug-in in a folder of OVERLAYCCL_PLUGINS is followed like one here.

Findings of a file of this repository are kept beside its bytecode until its text changes: a plan would spend much
of its time on that. Files of another repository, as of an unpacked archive, are always read.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from overlayccl_core import loader

PACKAGE = "overlayccl_core"
SCRIPTS = "workflow_scripts"
STAGES, RUNNER = f"{PACKAGE}/stages", f"{SCRIPTS}/stage.py"
ROOT = Path(__file__).resolve().parents[1]
DATA_SUFFIXES = (".json", ".yaml", ".txt", ".md", ".jinja", ".css")
WORDS = {  # folder -> (what is called, its argument): a literal text there reaches messages and pages, no table
    f"{PACKAGE}.configuration": (("Field",), "description"),
    f"{PACKAGE}.tables": (
        ("Column", "text", "texts", "integer", "integers", "number", "numbers", "flag", "ratio"),
        "doc",
    ),
}
TOLD = {  # reader of docstrings -> the files with them
    f"{PACKAGE}/search/rules.py": (f"{PACKAGE}/rewrites/rules/",),
    f"{PACKAGE}/search/briefing.py": (f"{PACKAGE}/problems/", f"{PACKAGE}/program/language.py"),
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Sources:
    """The code below a root and in the plug-ins' folders as it is now: each file is read and followed once.

    plugins, in its methods: files under overlayccl_core/ (`problems/tp_mlp.py`), or in a folder of
    OVERLAYCCL_PLUGINS.
    """

    def __init__(self, root: Path = ROOT, own: Iterable[Path] | None = None) -> None:
        """Take plug-ins from the folders `own`; None: those of OVERLAYCCL_PLUGINS."""
        more = [*(loader.roots()[1:] if own is None else own)]
        self._root = root
        # Folders laid out like the package: itself first, then those of plug-ins.
        self._packages = [root / PACKAGE, *more]
        self._outermost = {root, *more}
        self._files: dict[Path, _File] = {}
        # Thousands of imports name the same few hundred modules.
        self._modules = cache(self._modules_named)
        self._inits = cache(self._init_of)

    def digest(self, stage: str, *plugins: str) -> str:
        """Return 16 hexadecimal digits for the code of `stages/<stage>.py` with some plug-ins.

        Raises:
            ValueError: A file is not there.
        """
        h = hashlib.sha256()
        files = [self._files[path] for path in self.closure(stage, *plugins)]
        told = tuple(place for file in files for place in TOLD.get(file.below, ()))
        for file in sorted(files, key=lambda file: Path(file.below)):  # wherever plug-ins lie
            identity = f"{file.identity} {file.said}" if file.below.startswith(told) else file.identity
            h.update(f"{file.below} {identity}\n".encode())
        return h.hexdigest()[:16]

    def closure(self, stage: str, *plugins: str) -> tuple[Path, ...]:
        """Return the files hashed by `digest`, sorted."""
        todo = [self._root / STAGES / f"{stage}.py", self._root / RUNNER, *map(self._plugin, plugins)]
        for path in todo:
            if not path.is_file():
                raise ValueError(f"{path}: there is no such file to take a digest of")
        seen: set[Path] = set()
        while todo:
            path = todo.pop()
            if path not in seen:
                seen.add(path)
                if path not in self._files:
                    self._files[path] = self._read(path)
                todo.extend(self._files[path].needs)
        return tuple(sorted(seen))

    def _plugin(self, plugin: str) -> Path:
        places = [folder / plugin for folder in loader.order(plugin, self._packages)]
        return next((path for path in places if path.is_file()), places[0])

    def _read(self, path: Path) -> "_File":
        below = self._below(path)
        if path.suffix != ".py":
            return _File(below.as_posix(), hashlib.sha256(path.read_bytes()).hexdigest(), "", ())
        dotted = ".".join(
            below.with_suffix("").parts
        )  # a/b/__init__.py: `a.b.__init__`, and above it is `a.b`
        identity, said, modules, data = _found(
            path, dotted, keep=self._root == ROOT and path.is_relative_to(ROOT)
        )
        homes = [path.parent, *self._packages]
        needs = [
            *self._packages_above(path),
            *(found for name in modules for found in self._modules(name)),
            *(home / name for name in data for home in homes if (home / name).is_file()),
        ]
        return _File(below.as_posix(), identity, said, tuple(dict.fromkeys(needs)))

    def _below(self, path: Path) -> Path:
        """Return a file's place, independent of the folders of the repository and the plug-ins."""
        home = next((folder for folder in self._packages if path.is_relative_to(folder)), None)
        return Path(PACKAGE) / path.relative_to(home) if home else path.relative_to(self._root)

    def _packages_above(self, path: Path) -> Iterator[Path]:
        """Yield the packages above; of a plug-in elsewhere also those in the package: a copy is the same code."""
        for place in dict.fromkeys([path, self._root / self._below(path)]):
            for folder in place.parents:
                if folder in self._outermost:
                    break
                yield from self._inits(folder)

    @staticmethod
    def _init_of(folder: Path) -> list[Path]:
        return [file for file in [folder / "__init__.py"] if file.is_file()]

    def _modules_named(self, name: str) -> list[Path]:
        first, *rest = name.split(".")
        homes = self._packages if first == PACKAGE else [self._root / first]
        bases = [home.joinpath(*rest) for home in homes]
        return [p for base in bases for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()]


@dataclass(frozen=True, slots=True)
class _File:
    """A file: its place, hashed with its identity; digest of its docstrings; files it makes count, too."""

    below: str
    identity: str
    said: str
    needs: tuple[Path, ...]


def digest(stage: str, *plugins: str, root: Path = ROOT) -> str:
    """Return `Sources.digest` of the code as it is now."""
    return Sources(root).digest(stage, *plugins)


def closure(stage: str, *plugins: str, root: Path = ROOT) -> tuple[Path, ...]:
    """Return `Sources.closure` of the code as it is now."""
    return Sources(root).closure(stage, *plugins)


_Parsed = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _found(path: Path, module: str, *, keep: bool) -> _Parsed:
    """Return `_parsed` of a file; keep: as found before, until its text or this file changes.

    Written as Python writes bytecode: not if told to write none, nor if nothing can be written.
    """
    text = path.read_text()
    if not keep or sys.dont_write_bytecode:
        return _parsed(text, module)
    key = hashlib.sha256(f"{_OWN}\n{module}\n{text}".encode()).hexdigest()
    file = Path(cache_from_source(str(path))).with_name(f"{path.stem}.parsed.json")
    with suppress(OSError, ValueError, TypeError):
        known, (identity, said, modules, data) = json.loads(file.read_text())
        if known == key:
            return identity, said, tuple(modules), tuple(data)
    found = _parsed(text, module)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(json.dumps([key, found]))
        new.replace(file)
    return found


_OWN = Path(__file__).read_text()


@cache
def _parsed(text: str, module: str) -> _Parsed:
    """Return (hash of the tree, of the docstrings, modules of ours, data files) named by a source.

    A function of its text: never stale.
    """
    tree = ast.parse(text)
    _drop_words(tree, module.rpartition(".")[0])
    nodes = list(ast.walk(tree))
    docstrings, said = set(), hashlib.sha256()
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and (doc := ast.get_docstring(node)) is not None:
            said.update(f"{getattr(node, 'name', '')} {doc}\n".encode())
            docstrings.add(node.body[0].value)  # type: ignore[attr-defined]  # an expression: it has a docstring
            node.body = node.body[1:]
    strings = [
        n.value
        for n in nodes
        if isinstance(n, ast.Constant)
        and isinstance(n.value, str)
        and len(n.value) < 200
        and n not in docstrings
    ]
    imported = [name for name in _imports(nodes, module) if name.split(".")[0] in (PACKAGE, SCRIPTS)]
    modules = dict.fromkeys([*imported, *(s for s in strings if s.startswith(f"{PACKAGE}."))])
    data = dict.fromkeys(s for s in strings if s.endswith(DATA_SUFFIXES))
    identity = hashlib.sha256(_written(tree).encode()).hexdigest()
    return identity, said.hexdigest(), tuple(modules), tuple(data)


def _drop_words(tree: ast.AST, folder: str) -> None:
    """Remove the arguments of `WORDS` with literal texts."""
    if folder not in WORDS:
        return
    called, argument = WORDS[folder]
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in called:
            call.keywords = [one for one in call.keywords if one.arg != argument or not _is_text(one.value)]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _written(part: object) -> str:
    """Write a syntax tree as text, without empty fields: later versions of Python have more of them."""
    if isinstance(part, list):
        return f"[{','.join(map(_written, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = ((name, value) for name, value in ast.iter_fields(part) if value is not None and value != [])
    # `None` as a constant is a value, not an empty field: its node is written, without one
    return f"{type(part).__name__}({','.join(f'{name}={_written(value)}' for name, value in fields)})"


def _imports(nodes: Iterable[ast.AST], module: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
