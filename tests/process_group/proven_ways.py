"""A folder of ways for tests: a deployed module of the Problem `captured`, and which Case makes which call."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.emit.deployed_case import DeployedCase
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import DType, NotApplicable
from overlayccl_core.program.library import read_library
from tests.emit.deployed_modules import case_of_ways, library_way, way, write

Call = tuple[str, int]
"""(kind of the Problem `captured`, elements that a rank gives)."""
PLAIN = ("as_written", "in_flight_together", "merged", "coalesced", "native")
"""Ways that make one call as the library has it."""


def write_ways(
    folder: Path, calls: Iterable[Call], bundles: Iterable[Sequence[Call]] = (), ranks: int = 2
) -> Path:
    """Write `captured.py` and `ways.json`: each call by a way of several calls, each bundle merged."""
    folder.mkdir()
    entries: dict[str, DeployedCase] = {}
    rows = []
    for call in calls:
        deployed = _deployed(_case([call], ranks))
        entries[deployed.case_id] = deployed
        rows.append({"key": _key(call, ranks), "case": deployed.case_id})
    for bundle in bundles:
        deployed = _deployed(_case(bundle, ranks), "merged")
        entries[deployed.case_id] = deployed
        rows.append({"bundle": [_key(call, ranks) for call in bundle], "case": deployed.case_id})
    write(folder, "captured", list(entries.values()))
    (folder / "ways.json").write_text(json.dumps(rows))
    return folder


def _case(calls: Sequence[Call], ranks: int) -> Case:
    entry = {"calls": [{"kind": kind, "elements": elements} for kind, elements in calls]}
    return catalog.case("captured", entry, ranks=ranks, ranks_per_node=ranks, dtype=DType.FLOAT32)


def _key(call: Call, ranks: int) -> list[Any]:
    kind, elements = call
    name, _, reduction = kind.rpartition("_") if kind.endswith(("_sum", "_avg")) else (kind, "", "")
    return [name, reduction, "float32", elements, ranks]


def _deployed(case: Case, name: str = "") -> DeployedCase:
    names = (
        [name]
        if name
        else [n for n in read_library(catalog.library_source("captured")).ways if n not in PLAIN]
    )
    for one in names:
        try:
            chosen = library_way(case, one)
        except NotApplicable:
            continue
        return case_of_ways(way(one, chosen), way("as_written", library_way(case, "as_written")))
    raise ValueError(f"no way of {case.id} among {names}")
