"""A deployment: a cluster and its collective library, as data."""

import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from overlayccl_core import loader
from overlayccl_core.configuration import named_files

UNITS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Consecutive ranks that are equally near to one another: `ranks` of them make one unit."""

    name: str
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Where Programs run: backend, library, world size, nodes, tiers (near to far), bytes a rank may hold."""

    name: str
    backend: str
    library: str
    ranks: int
    ranks_per_node: int
    tiers: tuple[Tier, ...]
    memory_budget_bytes: int

    def __post_init__(self) -> None:
        where = f"deployment {self.name}"
        if self.ranks % self.ranks_per_node:
            raise ValueError(
                f"{where}: ranks_per_node must divide ranks (got {self.ranks_per_node} and {self.ranks}): "
                f"use {self.ranks} for one node"
            )
        sizes = [tier.ranks for tier in self.tiers]
        nested = all(large > small and large % small == 0 for small, large in pairwise(sizes))
        if not sizes or sizes[-1] != self.ranks or not nested:
            raise ValueError(
                f"{where}: each tier must be a multiple of the one before and the last hold all "
                f"{self.ranks} ranks (got {sizes}): name them from the nearest to the farthest"
            )
        if len({tier.name for tier in self.tiers}) != len(self.tiers):
            raise ValueError(f"{where}: names of tiers must differ (got {[t.name for t in self.tiers]})")
        if self.memory_budget_bytes < 1:
            raise ValueError(
                f"{where}: memory_budget must be at least one byte (got {self.memory_budget_bytes})"
            )

    @property
    def nodes(self) -> int:
        """How many nodes the ranks are on."""
        return self.ranks // self.ranks_per_node


def load(path: str | Path) -> Deployment:
    """The deployment that a YAML file describes; its name is the file's. ValueError: file, field and mend."""
    file = Path(path)
    data = named_files.read("deployment", file, _schema())
    ranks = data["ranks"]
    per_node = data.get("ranks_per_node", ranks)
    tiers = tuple(Tier(name=t["name"], ranks=t["ranks"]) for t in data.get("tiers", ())) or _tiers(
        ranks, per_node
    )
    try:
        return Deployment(
            name=file.stem,
            backend=data["backend"],
            library=data["library"],
            ranks=ranks,
            ranks_per_node=per_node,
            tiers=tiers,
            memory_budget_bytes=in_bytes(data["memory_budget"]),
        )
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def in_bytes(size: int | str) -> int:
    """1048576, `1024KiB` and `1 MiB` are the same number of bytes."""
    if isinstance(size, int):
        return size
    for unit, step in UNITS.items():
        if size.endswith(unit):
            return int(float(size.removesuffix(unit)) * step)
    raise ValueError(f"a size is a number of bytes or ends in one of {', '.join(UNITS)} (got {size!r})")


def _tiers(ranks: int, ranks_per_node: int) -> tuple[Tier, ...]:
    if ranks_per_node in (1, ranks):
        return (Tier(name="node" if ranks_per_node == ranks else "network", ranks=ranks),)
    return Tier(name="node", ranks=ranks_per_node), Tier(name="network", ranks=ranks)


@cache
def _schema() -> dict[str, Any]:
    return json.loads(loader.data("configuration/deployment.schema.json"))  # type: ignore[no-any-return]
