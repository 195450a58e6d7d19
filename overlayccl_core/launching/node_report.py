"""What the agents of a launch's nodes tell of it, and what is to be said of launches because of that.

It is kept in the launch's folder, nodes.json. A launch whose ranks this process starts itself has none: its
fingerprint tells of the host, and it has one clock.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.launching import fingerprint
from overlayccl_core.tables.atomic import write_text

FILE = "nodes.json"
ALIKE = " alike: "
CLOCK_LIMIT = 0.01  # of what is timed: half of the 2 % from which on a race takes a Program for slower


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """nodes: what they are, in a line; empty: no agents started the ranks. clock_off_by_ns: the most by which the
    clocks of two of them may have differed, and with them the length of what was timed."""

    nodes: str = ""
    clock_off_by_ns: int = 0

    def write(self, folder: Path) -> None:
        """Keep it, whatever becomes of the launch."""
        write_text(folder / FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "NodeReport":
        """Of the launch in a folder."""
        path = folder / FILE
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    @property
    def columns(self) -> dict[str, Any]:
        """Of a table's row."""
        return {"nodes": self.nodes, "clock_off_by_us": self.clock_off_by_ns / 1e3}


def nodes_text(nodes: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    """(host, parts of a fingerprint) of every node, in a line: `2 alike: cpu AMD EPYC, ... #1f2e3d4c`, or each."""
    lines = [fingerprint.line(parts) for _, parts in nodes]
    if len(set(lines)) == 1:
        return f"{len(nodes)}{ALIKE}{lines[0]}"
    return "; ".join(f"{host}: {line}" for (host, _), line in zip(nodes, lines, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchClock:
    """What is told of a launch, beside the length of the shortest that was timed in it."""

    nodes: str
    clock_off_by_us: float
    shortest_us: float

    @property
    def clock_share(self) -> float:
        """By so much of its length the shortest may be off."""
        return self.clock_off_by_us / self.shortest_us


def doubts(launches: Sequence[LaunchClock]) -> list[str]:
    """Sentences on what was timed; none where nodes are alike and their clocks agree."""
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
