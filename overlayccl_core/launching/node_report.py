"""Reports of the agents on a launch's nodes, and the resulting doubts about timings.

The report is nodes.json in the launch's folder. A launch started by this process itself has none: its fingerprint
tells of the host, and it has one clock.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from overlayccl_core.launching import fingerprint
from overlayccl_core.tables.atomic import write_text

FILE = "nodes.json"
ALIKE = " alike: "
CLOCK_LIMIT = 0.01  # of a timed length: half of the 2 % from which on a race takes a Program for slower


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A launch's nodes and clocks.

    Attributes:
        nodes: The nodes' description, in a line; empty: no agents started the ranks.
        clock_off_by_ns: Largest possible difference of two nodes' clocks, and so of a timed length.
        fewest_cores: Usable cores of the agent with the fewest, its part of them where nodes share a host; 0: no
            agents.
    """

    nodes: str = ""
    clock_off_by_ns: int = 0
    fewest_cores: float = 0

    def write(self, folder: Path) -> None:
        """Write it into a launch's folder, however the launch ends."""
        write_text(folder / FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "NodeReport":
        path = folder / FILE
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    @property
    def cores(self) -> float:
        """Usable cores of a node's ranks; without agents they have those of this process."""
        return self.fewest_cores or int(fingerprint.host_parts()["cores"])

    @property
    def columns(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "clock_off_by_us": self.clock_off_by_ns / 1e3}


def nodes_text(nodes: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """Describe all nodes (host, fingerprint parts) in a line: `2 alike: cpu AMD EPYC, ... #1f2e3d4c`, or each."""
    lines = [fingerprint.line(parts) for _, parts in nodes]
    if len(set(lines)) == 1:
        return f"{len(nodes)}{ALIKE}{lines[0]}"
    return "; ".join(f"{host}: {line}" for (host, _), line in zip(nodes, lines, strict=True))


class LaunchClock(NamedTuple):
    """Nodes and clock error of a launch, and the shortest length timed in it."""

    nodes: str
    clock_off_by_us: float
    shortest_us: float

    @property
    def clock_share(self) -> float:
        return self.clock_off_by_us / self.shortest_us


def doubts(launches: Sequence[LaunchClock]) -> list[str]:
    """Return sentences of doubt about timings; none for alike nodes with agreeing clocks."""
    told = list(dict.fromkeys(one.nodes for one in launches if one.nodes))
    said = [f"The nodes of a launch are not alike: {nodes}." for nodes in told if ALIKE not in nodes]
    if len(told) > 1:
        said.append(f"Launches ran on nodes that differ: {'; others on '.join(told)}.")
    worst = max(launches, key=lambda one: one.clock_share, default=None)
    if worst and worst.clock_share > CLOCK_LIMIT:
        said.append(
            f"The clocks of the nodes may have differed by {worst.clock_off_by_us:.0f} us, {worst.clock_share:.1%} "
            f"of the shortest that was timed ({worst.shortest_us / 1e3:.1f} ms): rely on no smaller difference."
        )
    return said
