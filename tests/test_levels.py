"""Imports point one way, torch stays where ranks run, `__init__` files are empty, files stay readable."""

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "overlayccl_core"
LONGEST = 400

# A folder (or module) of the package -> what of the package it may import besides itself.
EVERYBODY = {
    "loader",
    "locks",
    "disk",
    "configuration.fields",
    "configuration.sizes",
}  # imported by whoever needs it
MAY_IMPORT = {
    "loader": set[str](),
    "configuration.fields": set(),
    "configuration.sizes": set(),
    "digest": {"loader"},
    "rule": {"loader"},
    "project": {"loader"},
    "locks": set[str](),
    "disk": set[str](),
    "measuring": set[str](),
    "tables": {"measuring"},
    "program": set[str](),
    "sandbox": {"program"},
    "problems": {"program"},
    "strategies": {"program"},
    "catalog": {"program", "problems"},
    "process_group.parts": set(),
    "process_group.descent": set(),
    "observing": {"program", "tables", "measuring", "process_group.parts"},
    "configuration": {"catalog", "program", "observing", "tables"},
    "deployments": {"program"},
    "asking": {"configuration", "tables"},
    "workloads": {"program", "problems", "configuration", "measuring"},
    "rewrites": {"program", "problems", "strategies", "catalog"},
    "schedules": {"program", "problems", "catalog"},
    "probes": {"program", "configuration", "deployments", "backends", "timing"},
    "probes.asked": {
        *("program", "configuration", "deployments", "measuring", "asking"),
        *("probes", "costmodel", "gates", "launching", "backends", "timing"),
    },
    "costmodel": {"program", "deployments", "measuring"},
    "gates": {"program", "problems", "deployments", "measuring"},
    "emit": {"program"},
    "launching": {"configuration", "tables"},
    "backends": {"program", "emit", "configuration", "deployments", "tables", "measuring", "launching"},
    "timing": {"program", "configuration", "deployments", "tables", "measuring", "launching", "backends"},
    "step": {"program", "costmodel"},
    "training": {
        *("program", "configuration", "workloads", "emit", "step"),
        *("launching", "backends", "timing", "deployments", "measuring", "tables"),
    },
    "evidence": {
        *("program", "configuration", "deployments", "measuring", "gates", "tables"),
        *("emit", "launching", "backends", "timing", "costmodel", "rewrites", "search", "asking", "step"),
    },
    "search": {
        *("program", "catalog", "problems", "strategies", "configuration", "deployments"),
        *("rewrites", "gates", "costmodel", "measuring", "asking", "sandbox", "step"),
    },
}
MAY_IMPORT["tuning"] = {
    *("program", "catalog", "problems", "rewrites", "gates", "deployments", "configuration", "costmodel"),
    *("emit", "evidence", "launching", "measuring", "observing", "tables"),
    *("process_group.parts", "process_group.descent"),
}
MAY_IMPORT["report"] = set(MAY_IMPORT)
MAY_IMPORT["archiving"] = set(MAY_IMPORT) - {"report"}
MAY_IMPORT["stages"] = set(MAY_IMPORT)
MAY_IMPORT["archiving.complete"] = set(MAY_IMPORT)  # what was to be measured, the stages tell
MAY_IMPORT["dag"] = {"rule", "configuration"}
MAY_IMPORT["estimates"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)
TORCH = {"backends", "training"}
PRINTED = "emit/runtime"  # read and printed into modules that run elsewhere, never imported by the package
LAID = "process_group"  # copied beside somebody's script: it imports its own files and torch


def files() -> list[Path]:
    return sorted(file for file in PACKAGE.rglob("*.py") if not file.is_relative_to(PACKAGE / LAID))


def home(file: Path) -> str:
    """What a file counts as in MAY_IMPORT: its folder, or itself where it has a level of its own."""
    return level(file.relative_to(PACKAGE).with_suffix("").parts)


def level(parts: tuple[str, ...]) -> str:
    """The key of MAY_IMPORT for `configuration/settings` (its folder's) or `configuration/fields` (its own)."""
    own = ".".join(parts[:2])
    return own if own in MAY_IMPORT else parts[0]


@cache
def imports(file: Path) -> list[tuple[str, int]]:
    """The modules that a file imports, with their lines."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: imports are absolute"
            module = str(node.module)
            names = [f"{module}.{alias.name}" for alias in node.names] if module == PACKAGE.name else [module]
            found += [(name, node.lineno) for name in names]
    return found


def test_every_folder_has_its_place() -> None:
    found = {home(file) for file in files()} - {"__init__"}
    assert found <= set(MAY_IMPORT), f"add to MAY_IMPORT and to ARCHITECTURE.md: {found - set(MAY_IMPORT)}"


def test_levels_have_no_circle() -> None:
    left = dict(MAY_IMPORT)
    while left:
        lowest = {name for name, below in left.items() if not below & set(left)}
        assert lowest, f"a circle among {sorted(left)}"
        left = {name: below for name, below in left.items() if name not in lowest}


def test_imports_point_downwards() -> None:
    for file in files():
        mine = home(file)
        for name, line in imports(file):
            parts = name.split(".")
            theirs = level(tuple(parts[1:])) if len(parts) > 1 else ""
            if parts[0] == PACKAGE.name and theirs not in ("", mine):
                assert theirs in MAY_IMPORT[mine] | EVERYBODY, (
                    f"{file}:{line}: {mine} may not import {theirs}"
                )
            assert parts[0] not in ("workflow_scripts", "tests"), f"{file}:{line}"


def test_torch_is_imported_where_ranks_run_only_and_what_is_printed_into_modules_never() -> None:
    printed = f"{PACKAGE.name}.{PRINTED.replace('/', '.')}."
    for file in files():
        if not file.is_relative_to(PACKAGE / PRINTED):
            names = [f"{name}." for name, _ in imports(file)]
            assert not [name for name in names if name.startswith(printed)], file
            assert home(file) in TORCH or not [name for name in names if name.startswith("torch.")], file


def test_what_is_laid_beside_a_script_needs_torch_alone() -> None:
    for file in (PACKAGE / LAID).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            for name in names:
                assert name.split(".")[0] in {"torch", *sys.stdlib_module_names}, f"{file}: {name}"


def test_stages_do_not_import_each_other() -> None:
    for file in (PACKAGE / "stages").glob("*.py"):
        for name, line in imports(file):
            assert not name.startswith("overlayccl_core.stages"), f"{file}:{line}"


def test_init_files_are_empty() -> None:
    for file in files():
        if file.name == "__init__.py":
            assert not file.read_text(), f"{file}: a re-exporting __init__ joins all code digests"


def test_files_stay_readable() -> None:
    folders = (PACKAGE, ROOT / "tests", ROOT / "workflow_scripts", ROOT / "rules")
    paths = [*(p for folder in folders for p in folder.rglob("*")), ROOT / "Snakefile"]
    long = {
        str(path): lines
        for path in paths
        if path.suffix in (".py", ".smk", "") and path.is_file()
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }
    assert not long


def test_strategies_are_never_imported() -> None:
    """What one of their files imports of ways is read, too."""
    for file in files():
        for name, line in imports(file):
            strategies = name.startswith(f"{PACKAGE.name}.strategies.") and home(file) != "strategies"
            assert not strategies, f"{file}:{line}"
