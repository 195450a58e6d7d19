"""Ways that Problems share: a strategy file imports a file of `strategies/ways`, and its LIBRARY offers all of it.

    from overlayccl_core.strategies.ways import sums

    def _each_layer(io, p, way):
        ...  # calls way(values, p)

    LIBRARY = Library(developer="developer", ways=((sums, _each_layer),))

This stands for one function more for each public one of `sums`, of its name and with its docstring:
`def coalesced(io, p): return _each_layer(io, p, sums.coalesced)`. So a way that is added is a strategy of every
Problem that it fits. A folder of one's own that has a file of that name adds its functions to the package's.
A second pair of the same file offers its ways once more, with the function's name behind theirs
(`coalesced_each_layer`).

A file of ways, too, is made of others: a gather is an exchange of copies, a sum a gather that everybody adds up.
`DERIVED = ((exchanges, _of_copies),)` at its end stands for a way more for each one of `exchanges`, of its name
with `_of_copies` behind it. These, and what a second pair offers, are `derived`: of them the cheapest is timed.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from overlayccl_core import loader
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.source_check import DERIVED, LIBRARIES, WAYS_MODULE, check_tree

FOLDER = f"{loader.READ}/ways"
KEYWORD = "ways"

WaysOf = Callable[[str], tuple[str, ...]]
"""The name of a file of ways -> its texts: the package's, then those of folders of one's own."""


def ways_of(name: str) -> tuple[str, ...]:
    """As they are on this machine; Rejected naming those there are."""
    try:
        return loader.sources(FOLDER, name)
    except ValueError as error:
        raise Rejected(str(error)) from None


def all_ways() -> Mapping[str, tuple[str, ...]]:
    """All of them, by name: for who traces where no file can be read."""
    return {name: loader.sources(FOLDER, name) for name in loader.names(FOLDER)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way that a library, or another file of ways, has by a pair. name: there; way: in its own file."""

    name: str
    doc: str
    file: str
    way: str
    template: str
    derived: bool


def tree_of(source: str, ways: WaysOf = ways_of) -> ast.Module:
    """The checked tree of a source, with a function for each way that it offers before its last statement.

    Rejected as `check_tree` says, where `ways` names no file or function, and where a way has the name of a
    function that is there.
    """
    tree = ast.Module(list(_checked(source).body), [])
    known = {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}
    names = {file: name for name, file in imported(tree).items()}
    for statement in [s for s in tree.body if isinstance(s, ast.Assign) and offers(s)]:
        for one in offered(tree, statement, ways):
            if one.name in known:
                raise Rejected(f"{one.name} is offered as a way: give one of the two another name").at(
                    statement.lineno
                )
            known.add(one.name)
            call = f"{one.template}(x, p, {names[one.file]}.{one.way})"
            text = f"def {one.name}(x, p):\n    {one.doc!r}\n    return {call}"
            (function,) = ast.parse(text).body
            for node in ast.walk(function):
                ast.copy_location(node, statement)
            tree.body.insert(len(tree.body) - 1, function)
    return tree


def reached(source: str, ways: WaysOf = ways_of) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, texts) of each file of ways that a source imports and that these import: with it, all that its
    tree follows from. Rejected where one is not there or not in the language."""
    found: dict[str, tuple[str, ...]] = {}
    todo = [source]
    for text in todo:  # grows
        for name in imported(_checked(text)).values():
            if name not in found:
                found[name] = ways(name)
                todo += found[name]
    return tuple(found.items())


def offers(statement: ast.stmt) -> bool:
    """Whether a statement of a checked tree names strategies, or ways that are derived."""
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in (*LIBRARIES, DERIVED)


def offered(
    tree: ast.Module, statement: ast.Assign, ways: WaysOf = ways_of, files: tuple[str, ...] = ()
) -> Iterator[Way]:
    """The ways that a statement offers, in their order. files: that are made of each other down to this one.

    Rejected where they are so in a circle.
    """
    library, first = isinstance(statement.value, ast.Call), dict[str, str]()
    docs = {s.name: ast.get_docstring(s) or "" for s in tree.body if isinstance(s, ast.FunctionDef)}
    for file, template in _pairs(tree, statement):
        plain = library and first.setdefault(file, template) == template
        for one in _public(file, ways, files):
            yield Way(
                name=one.name if plain else one.name + template,
                doc=one.doc if plain else f"By {file}.{one.name}: {docs[template]}",
                file=file,
                way=one.name,
                template=template,
                derived=one.derived or not plain,
            )


def imported(tree: ast.Module) -> dict[str, str]:
    """Name in a source -> the file of ways that it stands for."""
    imports = (s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == WAYS_MODULE)
    return {alias.asname or alias.name: alias.name for s in imports for alias in s.names}


def with_ways(source: str) -> str:
    """A source, and behind it the files of ways that it imports and that these import, for people and models."""
    files = ("\n".join((f"# {FOLDER}/{name}.py", *texts)) for name, texts in reached(source))
    return "\n\n".join((source, *files))


def _pairs(tree: ast.Module, statement: ast.Assign) -> Iterator[tuple[str, str]]:
    """(file, function) of each pair that `ways` of a library names, or DERIVED."""
    value: ast.expr = statement.value
    if isinstance(value, ast.Call):
        value = next((k.value for k in value.keywords if k.arg == KEYWORD), ast.Tuple([], ast.Load()))
    files = imported(tree)
    functions = {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}
    for pair in value.elts if isinstance(value, ast.Tuple) else [value]:
        match pair:
            case ast.Tuple(elts=[ast.Name(id=file), ast.Name(id=function)]) if (
                file in files and function in functions
            ):
                yield files[file], function
            case _:
                raise Rejected(
                    f"{ast.unparse(statement.targets[0])}: ways must be a tuple of pairs (file, function), both by"
                    f" name: a file that is imported from {WAYS_MODULE}, and a function of this one whose last"
                    " argument is a way"
                ).at(statement.lineno)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Public:
    """A way of a file."""

    name: str
    doc: str
    derived: bool


def _public(file: str, ways: WaysOf, files: tuple[str, ...]) -> list[_Public]:
    """The ways of a file; one of one's own takes the place of the package's of its name."""
    below = (*files, file)
    if file in files:
        raise Rejected(f"ways are made of each other in a circle: {' -> '.join(below)}")
    return list({one.name: one for text in ways(file) for one in _of_text(text, ways, below)}.values())


_checked = lru_cache(maxsize=64)(check_tree)  # trees that nobody changes


def _of_text(text: str, ways: WaysOf, files: tuple[str, ...]) -> Iterator[_Public]:
    tree = _checked(text)
    own = (s for s in tree.body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_"))
    yield from (_Public(name=s.name, doc=ast.get_docstring(s) or "", derived=False) for s in own)
    for statement in [s for s in tree.body if isinstance(s, ast.Assign) and offers(s)]:
        for way in offered(tree, statement, ways, files):
            yield _Public(name=way.name, doc=way.doc, derived=True)
