"""One name, one class: a reader who looks one up finds the right one."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("overlayccl_core", "run_display", "workflow_scripts")
# what plug-ins define under a given name, and what printed modules define for themselves
OF_PLUG_INS = frozenset({"Entry", "Model", "Pieces", "Rank", "Search", "Sizes"})
PRINTED = ("emit/runtime/", "backends/torchdist/calls.py", "backends/torchxla/calls.py")


def test_each_public_class_has_a_name_of_its_own() -> None:
    homes = defaultdict[str, list[str]](list)
    for file in (file for package in PACKAGES for file in (ROOT / package).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not any(part in path for part in PRINTED):
                homes[node.name].append(path)
    twice = {name: files for name, files in homes.items() if len(files) > 1 and not name.startswith("_")}
    assert twice.keys() <= OF_PLUG_INS, twice
