"""The guide to program/ names every module once, and a group needs no later one."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

from overlayccl_core.program import kinds
from overlayccl_core.program.operators import BINARY, UNARY
from overlayccl_core.program.scopes import BUILTINS
from overlayccl_core.program.source_check import WORDS

FOLDER = Path(kinds.__file__).parent
MODULES = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
PACKAGE = "overlayccl_core.program"


def groups() -> list[list[str]]:
    """The modules of each table of the guide, in its order."""
    tables = re.split(r"^\*\*", (FOLDER / "README.md").read_text(), flags=re.MULTILINE)[1:]
    return [re.findall(r"^\| `(\w+)\.py` \|", table, re.MULTILINE) for table in tables]


def imports(module: str) -> set[str]:
    """The modules of program/ that one of them imports, also for types only."""
    needed: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            needed |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{PACKAGE}."):
            needed.add(str(node.module).removeprefix(f"{PACKAGE}."))
    return needed


def test_the_guide_lists_every_module_once() -> None:
    assert sorted(m for group in groups() for m in group) == sorted(MODULES)


def test_a_group_needs_nothing_of_a_later_one() -> None:
    place = {module: i for i, group in enumerate(groups()) for module in group}
    later = [(a, b) for a in place for b in imports(a) if place[b] > place[a]]
    assert not later, f"move them in program/README.md: {later}"


def test_modules_import_one_another_in_no_circle() -> None:
    order = TopologicalSorter({module: imports(module) for module in MODULES}).static_order()
    assert set(order) == MODULES


def test_the_docs_name_all_that_the_language_has() -> None:
    text = (FOLDER.parents[1] / "docs/strategies.md").read_text().replace("\\|", "|")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    named = {word for code in re.findall(r"`([^`]+)`", text) for word in re.split(r"[\s(),.]+", code)}
    symbols = {o.symbol for o in (*BINARY.values(), *UNARY.values())}
    assert {*WORDS, *BUILTINS, *symbols} - named == set()
