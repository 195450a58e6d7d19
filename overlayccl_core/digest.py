"""Identity of a rule's code: what a change of reruns the rule, and nothing else does.

A rule runs one script of `workflow_scripts/`. Its code is that script, all that it imports from here, the
plug-ins that the rule's wildcards name, and the data files that any of these mention. Comments, docstrings
and formatting do not count: the syntax tree is hashed. (Another minor version of Python writes a syntax tree
differently: moving to one reruns everything.)

What the closure follows, read from the source without running it:
  imports of modules of ours, with the packages above them;
  "overlayccl_core.backends.torchdist.worker": a module's dotted name in a string, as it is run by `python -m`;
  "program.schema.json": a data file's name in a string, beside the module or counted from the package.
A plug-in of a folder that OVERLAYCCL_PLUGINS names is followed like one that is here.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from overlayccl_core import loader

PACKAGE = "overlayccl_core"
SCRIPTS = "workflow_scripts"
ROOT = Path(__file__).resolve().parents[1]
DATA_SUFFIXES = (".json", ".yaml", ".txt", ".md", ".jinja", ".css")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest(script: str, *plugins: str, root: Path = ROOT) -> str:
    """16 hexadecimal digits for the code of `workflow_scripts/<script>.py` with some plug-ins.

    plugins: files under overlayccl_core/ (`problems/tp_mlp.py`), or of a folder that OVERLAYCCL_PLUGINS names.
    ValueError if one is not there.
    """
    h = hashlib.sha256()
    for file in closure(script, *plugins, root=root):
        h.update(f"{_below(file, root).as_posix()} {_identity(file, root)}\n".encode())
    return h.hexdigest()[:16]


def closure(script: str, *plugins: str, root: Path = ROOT) -> tuple[Path, ...]:
    """The files that `digest` hashes, sorted."""
    todo = [root / SCRIPTS / f"{script}.py", *(_plugin(plugin, root) for plugin in plugins)]
    for file in todo:
        if not file.is_file():
            raise ValueError(f"{file}: there is no such file to take a digest of")
    seen: set[Path] = set()
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo.extend(_follow(file, root))
    return tuple(sorted(seen))


def _packages(root: Path) -> list[Path]:
    """Folders laid out like the package: itself, then those of plug-ins."""
    return [root / PACKAGE, *loader.roots()[1:]]


def _plugin(plugin: str, root: Path) -> Path:
    places = [folder / plugin for folder in _packages(root)]
    return next((file for file in places if file.is_file()), places[0])


def _below(file: Path, root: Path) -> Path:
    """Where a file stands, whatever folder the repository and the plug-ins are in."""
    home = next((folder for folder in _packages(root) if file.is_relative_to(folder)), None)
    return Path(PACKAGE) / file.relative_to(home) if home else file.relative_to(root)


def _follow(file: Path, root: Path) -> Iterator[Path]:
    if file.suffix != ".py":
        return
    yield from _packages_above(file, root)
    _, modules, data = _parsed(file.read_text(), _dotted(file, root))
    yield from (found for name in modules for found in _module_files(name, root))
    homes = [file.parent, *_packages(root)]
    yield from (home / name for name in data for home in homes if (home / name).is_file())


def _dotted(file: Path, root: Path) -> str:
    """`a/b/c.py` is `a.b.c` (and `a/b/__init__.py` is `a.b.__init__`: what is above it is `a.b`)."""
    return ".".join(_below(file, root).with_suffix("").parts)


def _packages_above(file: Path, root: Path) -> Iterator[Path]:
    outermost = {root, *loader.roots()[1:]}
    for folder in file.parents:
        if folder in outermost:
            return
        if (folder / "__init__.py").is_file():
            yield folder / "__init__.py"


def _module_files(name: str, root: Path) -> list[Path]:
    first, *rest = name.split(".")
    homes = _packages(root) if first == PACKAGE else [root / first]
    bases = [home.joinpath(*rest) for home in homes]
    return [p for base in bases for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()]


def _identity(file: Path, root: Path) -> str:
    if file.suffix != ".py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    return _parsed(file.read_text(), _dotted(file, root))[0]


@cache
def _parsed(text: str, module: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """(hash of the tree, modules of ours, data files) that a source names: a function of its text: never stale."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    docstrings = set()
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
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
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(modules), tuple(data)


def _imports(nodes: Iterable[ast.AST], module: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
