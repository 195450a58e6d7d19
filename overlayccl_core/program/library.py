"""Read the strategies of a source and their roles from its parsed tree."""

import ast
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.language import Library
from overlayccl_core.program.ways import KEYWORD, offered, tree_of

LIBRARY = "LIBRARY"
BACKWARD = "BACKWARD"  # the library of a nonlinear Problem's backward, which is no transpose


class Role(StrEnum):
    """The role of a known way in comparisons."""

    DEVELOPER = "developer"
    SINGLE_GRAPH = "single_graph"
    HAND_BUNDLED = "hand_bundled"
    DERIVED = "derived"  # a way made of others: only the cheapest are timed
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyLibrary:
    """The LIBRARY of one source."""

    listed: Library
    functions: tuple[str, ...]  # every public function in its order, listed or not; offered ways come last
    ways: tuple[str, ...] = ()  # the offered ways
    derived: frozenset[str] = frozenset()  # the offered ways that are made of others

    @property
    def developers(self) -> tuple[str, ...]:
        """What practitioners write, in order of preference."""
        listed = self.listed.developer
        return (listed,) if isinstance(listed, str) else listed

    @property
    def strategies(self) -> tuple[tuple[str, Role], ...]:
        """(name, role) of every listed strategy, developers first; a deployment takes one of these."""
        listed = self.listed
        named = [
            *((name, Role.DEVELOPER) for name in self.developers),
            *(((listed.single_graph, Role.SINGLE_GRAPH),) if listed.single_graph else ()),
            *(((listed.hand_bundled, Role.HAND_BUNDLED),) if listed.hand_bundled else ()),
            *((name, Role.OTHER) for name in listed.others),
        ]
        have_roles = {name for name, _ in named}
        roles = ((name, Role.DERIVED if name in self.derived else Role.OTHER) for name in self.ways)
        return (*named, *(one for one in roles if one[0] not in have_roles))


def functions_of(source: str) -> tuple[str, ...]:
    """The public functions of a source in its order; Rejected with the line if it is not in the language."""
    return _functions(tree_of(source))


def read_library(source: str, name: str = LIBRARY) -> StrategyLibrary:
    """Read the LIBRARY (or BACKWARD) of a source.

    Raises:
        Rejected: With the line, if it is missing or computed, or names no function.
    """
    tree = tree_of(source)
    functions = _functions(tree)
    last = tree.body[-1] if tree.body else None
    if name == BACKWARD:
        last = next((s for s in tree.body if _assigns(s, name)), None)
    if not (isinstance(last, ast.Assign) and isinstance(last.value, ast.Call)):
        line = getattr(last, "lineno", 1)
        where = "the last statement must be" if name == LIBRARY else "before the last statement there must be"
        raise Rejected(f"{where} {name} = Library(developer=..., others=(...))").at(line)
    ways = list(offered(tree, last))
    library = StrategyLibrary(
        listed=_listed(last.value),
        functions=functions,
        ways=tuple(one.name for one in ways),
        derived=frozenset(one.name for one in ways if one.derived),
    )
    names = [name for name, _ in library.strategies]
    for name in names:
        if name not in functions:
            raise Rejected(f"LIBRARY names {name!r}: the functions here are {', '.join(functions)}").at(
                last.lineno
            )
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise Rejected(f"LIBRARY names {twice!r} twice: a strategy has one role").at(last.lineno)
    return library


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name


def _functions(tree: ast.Module) -> tuple[str, ...]:
    return tuple(s.name for s in tree.body if isinstance(s, ast.FunctionDef) and not s.name.startswith("_"))


def _listed(call: ast.Call) -> Library:
    roles: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg == KEYWORD:
            continue
        try:
            roles[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except ValueError:
            raise Rejected(f"LIBRARY: {keyword.arg} must be written out, not computed").at(
                keyword.lineno
            ) from None
    optional = {"single_graph", "hand_bundled"}
    if call.args or set(roles) - optional - {"others"} != {"developer"}:
        raise Rejected(
            "LIBRARY takes developer, and single_graph, hand_bundled, others and ways where there are such"
            f" (got {', '.join(roles)})"
        ).at(call.lineno)
    if not _are_names(roles.setdefault("others", ())):
        raise Rejected("LIBRARY: others must be a tuple of names").at(call.lineno)
    if not isinstance(developer := roles["developer"], str) and not (developer and _are_names(developer)):
        raise Rejected("LIBRARY: developer must be a name, or a tuple of names by preference").at(call.lineno)
    if not all(isinstance(roles.get(role, ""), str) for role in optional):
        raise Rejected("LIBRARY: hand_bundled and single_graph must each be a name").at(call.lineno)
    return Library(**roles)


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)
