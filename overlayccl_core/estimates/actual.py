"""Times of a finished run beside their expectations, from the durations and settings it left."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.configuration.deployment import load
from overlayccl_core.report.payback import Cost, cost_of
from overlayccl_core.report.tree import JobTime, Tree
from overlayccl_core.rule import Budget
from overlayccl_core.tables.page import TABLES
from overlayccl_core.tables.sidecar import path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A job on ranks. expected_s: None if its settings are unknown; without compiling."""

    job: str
    expected_s: float | None
    actual_s: float


def cost_of_tree(tree: Tree) -> Cost:
    """Return the cost of the run. ValueError if no job left a duration."""
    cost = cost_of(tree)
    if cost is None:
        raise ValueError(
            f"{tree.path}: no job has left a duration in {tree.path / 'logs'}: run {tree.command}"
        )
    return cost


def compared(tree: Tree, cost: Cost) -> Iterator[Compared]:
    """Yield every job with the nodes to itself, in the order of the run."""
    for job in sorted(cost.jobs, key=lambda job: (job.declared.place, job.name)):
        if job.declared.measures:
            yield Compared(
                job=job.name.replace("-", " ", 1), expected_s=_expected_s(tree, job), actual_s=job.seconds
            )


def node_of(tree: Tree, root: Path) -> str:
    """Return the kind of node, from the deployment's file its jobs named; empty if unknown."""
    sidecar = path_of(tree.path / "probes.parquet")
    if not sidecar.is_file():
        return ""
    command: list[str] = json.loads(sidecar.read_bytes())["command"]
    file = root / command[command.index("--deployment") + 1] if "--deployment" in command else None
    return load(file).node if file is not None and file.is_file() else ""


def _expected_s(tree: Tree, job: JobTime) -> float | None:
    """Ask the first table of its rule for the settings, unless its budget needs none."""
    rule = job.declared
    if isinstance(rule.budget, Budget):
        return rule.budget.seconds
    table = next(table for table in TABLES if table.rule == job.rule)
    folder = table.folder
    for wildcard, value in job.subject.items():
        folder = folder.replace(f"<{wildcard}>", value)
    settings = tree.settings(table, f"{folder}{table.name}")
    return None if settings is None else rule.budget(settings, len(tree.models)).seconds
