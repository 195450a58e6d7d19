"""The part of a launch that one host has, and what it tells the processes of its ranks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOKEN = "OVERLAYCCL_AGENT_TOKEN"  # by which who asks knows its agents
STATUS = "OVERLAYCCL_STATUS"
LOOPBACK = "127.0.0.1"
STATUS_FILE = "status.bin"
LOG_FILE = "launch.log"
NODES_LOG = "launch-nodes.log"  # what printed those who start agents on nodes, and the agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some ranks of a launch, `first` to `first + count - 1` of `ranks`.

    address, port: where the ranks find the store in which they meet; port 0: this host makes it there. status: the
    file that they share with whoever watches them, on this host. log: where all that they print goes.
    clock_offset_ns: what to add to this host's CLOCK_MONOTONIC to have that of the first node, when the launch
    begins; `status` has it from then on.
    """

    first: int
    count: int
    ranks: int
    address: str
    port: int
    status: Path
    log: Path
    clock_offset_ns: int = 0

    @classmethod
    def whole(cls, folder: Path, ranks: int) -> "Part":
        """All ranks, on this host, whose status and log are in the launch's folder."""
        return cls(
            first=0,
            count=ranks,
            ranks=ranks,
            address=LOOPBACK,
            port=0,
            status=folder / STATUS_FILE,
            log=folder / LOG_FILE,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: str(x) if isinstance(x, Path) else x for name, x in asdict(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Part":
        """The part that `to_json` made plain."""
        return cls(**{**data, "status": Path(data["status"]), "log": Path(data["log"])})

    def environment(self, local_rank: int, port: int) -> dict[str, str]:
        """Of a rank's process: what torchrun would set, and what is ours. port: of the store."""
        return {
            "RANK": str(self.first + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.count),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "overlayccl",  # by which libraries know that all this is set
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is not rank 0's
            STATUS: str(self.status),
        }


def log_of(node: int) -> str:
    """The log of a node's ranks, in the folder of a launch."""
    return LOG_FILE.replace(".", f"-{node}.") if node else LOG_FILE
