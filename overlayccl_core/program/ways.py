"""Ways shared by Problems: a strategy file imports a file of `strategies/ways`, and its LIBRARY offers all of it.

    from overlayccl_core.strategies.ways import sums

    def _each_layer(io, p, way):
        ...  # calls way(values, p)

    LIBRARY = Library(developer="developer", ways=((sums, _each_layer),))

This stands for one more function for each public one of `sums`, with its name and its docstring:
`def coalesced(io, p): return _each_layer(io, p, sums.coalesced)`. So a new way is a strategy of every Problem it
fits. A file of the same name in your own folder adds its functions to the package's. A second pair of the same file
offers its ways once more, with the function's name behind theirs (`coalesced_each_layer`). So do all pairs of a
BACKWARD, which stands in the same file.

A file of ways may build on others: a gather is an exchange of copies, a sum is a gather added up by every rank.
`DERIVED = ((exchanges, _of_copies),)` at its end stands for one more way for each one of `exchanges`, with
`_of_copies` behind its name. These ways, and those of a second pair, are `derived`: only the cheapest is timed.
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
    """Read a file of ways as it is on this machine; Rejected, naming the known files, if it is missing."""
    try:
        return loader.sources(FOLDER, name)
    except ValueError as error:
        raise Rejected(str(error)) from None


def all_ways() -> Mapping[str, tuple[str, ...]]:
    """All files of ways by name, for tracing without access to files."""
    return {name: loader.sources(FOLDER, name) for name in loader.names(FOLDER)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedWay:
    """A way of a file, or one offered by a pair, in a library or in another file of ways."""

    name: str  # its name there
    doc: str
    file: str
    way: str  # its name in its own file
    template: str  # the function of the pair; empty for a way in its own file
    derived: bool


def tree_of(source: str, ways: WaysOf = ways_of) -> ast.Module:
    """Return the checked tree of a source, with a function for each offered way before its last statement.

    Raises:
        Rejected: As in `check_tree`; `ways` names an unknown file or function; or a way has the name of an
            existing function.
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
    """Return (name, texts) of each file of ways imported by a source, directly or through others.

    The source and these files fix the source's tree.

    Raises:
        Rejected: A file is missing or not in the language.
    """
    found: dict[str, tuple[str, ...]] = {}
    todo = [source]
    for text in todo:  # grows
        for name in imported(_checked(text)).values():
            if name not in found:
                found[name] = ways(name)
                todo += found[name]
    return tuple(found.items())


def offers(statement: ast.stmt) -> bool:
    """True if a statement of a checked tree names strategies or derived ways."""
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in (*LIBRARIES, DERIVED)


def offered(
    tree: ast.Module, statement: ast.Assign, ways: WaysOf = ways_of, files: tuple[str, ...] = ()
) -> Iterator[OfferedWay]:
    """Yield the ways offered by a statement, in their order.

    Args:
        files: Files of ways made of each other, down to this one.
    Raises:
        Rejected: They are made of each other in a circle.
    """
    library, first = isinstance(statement.value, ast.Call), dict[str, str]()
    second = ast.unparse(statement.targets[0]) == LIBRARIES[1]  # beside the first, which has the plain names
    docs = {s.name: ast.get_docstring(s) or "" for s in tree.body if isinstance(s, ast.FunctionDef)}
    taken: dict[str, str] = {}
    for file, template in _pairs(tree, statement):
        first_of_file = library and first.setdefault(file, template) == template
        for one in _public(file, ways, files):
            plain = first_of_file and taken.setdefault(one.name, file) == file
            yield OfferedWay(
                name=one.name if plain and not second else one.name + template,
                doc=one.doc if plain and not second else f"By {file}.{one.name}: {docs[template]}",
                file=file,
                way=one.name,
                template=template,
                derived=one.derived or not plain,
            )


def imported(tree: ast.Module) -> dict[str, str]:
    """Name in a source -> its file of ways."""
    imports = (s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == WAYS_MODULE)
    return {alias.asname or alias.name: alias.name for s in imports for alias in s.names}


def with_ways(source: str) -> str:
    """A source followed by all files of ways that it reaches, for people and models."""
    files = ("\n".join((f"# {FOLDER}/{name}.py", *texts)) for name, texts in reached(source))
    return "\n\n".join((source, *files))


def _pairs(tree: ast.Module, statement: ast.Assign) -> Iterator[tuple[str, str]]:
    """(file, function) of each pair in a library's `ways`, or in DERIVED."""
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


def _public(file: str, ways: WaysOf, files: tuple[str, ...]) -> list[OfferedWay]:
    """The ways of a file; your own replace the package's of the same name."""
    below = (*files, file)
    if file in files:
        raise Rejected(f"ways are made of each other in a circle: {' -> '.join(below)}")
    return list({one.name: one for text in ways(file) for one in _of_text(text, ways, below)}.values())


_checked = lru_cache(maxsize=64)(check_tree)  # its trees must not be changed


def _of_text(text: str, ways: WaysOf, files: tuple[str, ...]) -> Iterator[OfferedWay]:
    tree = _checked(text)
    own = (s for s in tree.body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_"))
    yield from (
        OfferedWay(
            name=s.name,
            doc=ast.get_docstring(s) or "",
            file=files[-1],
            way=s.name,
            template="",
            derived=False,
        )
        for s in own
    )
    for statement in [s for s in tree.body if isinstance(s, ast.Assign) and offers(s)]:
        yield from offered(tree, statement, ways, files)
