"""What a strategy takes by hand: the lines of its function and of all helpers that it reaches, in any file.

A statement is a line, wherever it is broken; docstrings, comments and imports are none.
"""

import ast
from functools import cache

from overlayccl_core.program.ways import WaysOf, imported, tree_of, ways_of

_Function = tuple[str, str]
"""(file of ways, or "" for the source; name)."""
_Functions = dict[str, tuple[ast.FunctionDef, dict[str, str]]]
"""Name -> (function, files of ways by their names in its file)."""


def lines_of(source: str, ways: WaysOf = ways_of) -> dict[str, int]:
    """Return name -> lines of each public function of a source, offered ways among them.

    Raises:
        Rejected: As in `tree_of`.
    """

    @cache
    def functions(file: str) -> _Functions:
        found: _Functions = {}
        for text in ways(file) if file else (source,):
            tree = tree_of(text, ways)
            files = imported(tree)
            found |= {s.name: (s, files) for s in tree.body if isinstance(s, ast.FunctionDef)}
        return found

    def reached(name: str) -> set[_Function]:
        found: set[_Function] = set()
        todo = [("", name)]
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += called(*one)
        return found

    @cache
    def called(file: str, name: str) -> list[_Function]:
        function, files = functions(file)[name]
        calls = []
        for node in ast.walk(function):
            match node:
                case ast.Name(id=own) if own in functions(file):
                    calls.append((file, own))
                case ast.Attribute(value=ast.Name(id=alias), attr=way) if alias in files:
                    calls.append((files[alias], way))
        return calls

    return {
        name: sum(_lines(functions(file)[way][0]) for file, way in reached(name))
        for name in functions("")
        if not name.startswith("_")
    }


def _lines(function: ast.FunctionDef) -> int:
    """Lines of a function, its `def` included."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 1 + sum(len(ast.unparse(statement).splitlines()) for statement in body)
