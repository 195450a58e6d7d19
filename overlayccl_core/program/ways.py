"""Ways that Problems share: a strategy file imports a file of `strategies/ways`, and its LIBRARY offers all of it.

    from overlayccl_core.strategies.ways import sums

    def _each_layer(io, p, way):
        ...  # calls way(values, p)

    LIBRARY = Library(developer="developer", ways=((sums, _each_layer),))

This stands for one function more for each public one of `sums`, of its name and with its docstring:
`def coalesced(io, p): return _each_layer(io, p, sums.coalesced)`. So a way that is added is a strategy of every
Problem that it fits. A folder of one's own that has a file of that name adds its functions to the package's.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

from overlayccl_core import loader
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.source_check import LIBRARIES, WAYS_MODULE, check_tree

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


def tree_of(source: str, ways: WaysOf = ways_of) -> ast.Module:
    """The checked tree of a source, with a function for each way that it offers before its last statement.

    Rejected as `check_tree` says, where `ways` names no file or function, and where a way has the name of a
    function that is there.
    """
    tree = check_tree(source)
    known = {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}
    for library in [s for s in tree.body if isinstance(s, ast.Assign) and is_library(s)]:
        for function in _offered(tree, library, ways):
            if function.name in known:
                raise Rejected(f"{function.name} is offered as a way: give one of the two another name").at(
                    library.lineno
                )
            known.add(function.name)
            tree.body.insert(len(tree.body) - 1, function)
    return tree


def is_library(statement: ast.stmt) -> bool:
    """Whether a statement of a checked tree names strategies."""
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in LIBRARIES


def offered(tree: ast.Module, library: ast.Call, ways: WaysOf = ways_of) -> tuple[str, ...]:
    """The names of the ways that a library offers, in their order."""
    return tuple(way for file, _ in _pairs(tree, library) for way in _public(file, ways))


def imported(tree: ast.Module) -> dict[str, str]:
    """Name in a source -> the file of ways that it stands for."""
    imports = (s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == WAYS_MODULE)
    return {alias.asname or alias.name: alias.name for s in imports for alias in s.names}


def with_ways(source: str) -> str:
    """A source, and behind it the files of ways that it imports and that these import, for people and models."""
    found: dict[str, str] = {}
    todo = [source]
    for text in todo:
        new = [name for name in imported(check_tree(text)).values() if name not in found]
        found |= {name: "\n".join(ways_of(name)) for name in new}
        todo += [found[name] for name in new]
    return "\n\n".join([source, *(f"# {FOLDER}/{name}.py\n{text}" for name, text in found.items())])


def _offered(tree: ast.Module, library: ast.Assign, ways: WaysOf) -> Iterator[ast.FunctionDef]:
    names = {file: name for name, file in imported(tree).items()}
    for file, template in _pairs(tree, library.value):
        for way, doc in _public(file, ways).items():
            text = f"def {way}(io, p):\n    {doc!r}\n    return {template}(io, p, {names[file]}.{way})"
            (function,) = ast.parse(text).body
            assert isinstance(function, ast.FunctionDef)
            for node in ast.walk(function):
                ast.copy_location(node, library)
            yield function


def _pairs(tree: ast.Module, library: ast.expr) -> Iterator[tuple[str, str]]:
    """(file, function) of each pair that `ways` of a library names."""
    assert isinstance(library, ast.Call)
    value = next((k.value for k in library.keywords if k.arg == KEYWORD), ast.Tuple([], ast.Load()))
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
                    "LIBRARY: ways must be a tuple of pairs (file, function), both by name: a file that is imported"
                    f" from {WAYS_MODULE}, and a function (io, p, way) of this one"
                ).at(library.lineno)


def _public(file: str, ways: WaysOf) -> dict[str, str]:
    """Name -> docstring of the ways of a file; one of one's own takes the place of the package's of its name."""
    found = {}
    for text in ways(file):
        for s in check_tree(text).body:
            if isinstance(s, ast.FunctionDef) and not s.name.startswith("_"):
                found[s.name] = ast.get_docstring(s) or ""
    return found
