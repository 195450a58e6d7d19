"""One host's part of a launch, and the environment of its ranks."""

from dataclasses import dataclass
from pathlib import Path

TOKEN = "OVERLAYCCL_AGENT_TOKEN"  # identifies a requester's agents
NODE = "OVERLAYCCL_NODE"  # an agent's node, from 0
ADDRESS = (
    "OVERLAYCCL_ADDRESS"  # where other nodes find an agent's node; unset: at the address of its connection
)
STATUS = "OVERLAYCCL_STATUS"
LOOPBACK = "127.0.0.1"
STATUS_FILE = "status.bin"
LOG_FILE = "launch.log"
NODES_LOG = "launch-nodes.log"  # output of the launcher and the agents


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRanks:
    """Some ranks of a launch, `first` to `first + count - 1` of `ranks`.

    Attributes:
        address, port: The ranks' rendezvous store; port 0: this host makes it.
        status: File shared by the ranks and their watcher, on this host.
        log: File for all output of the ranks.
        clock_offset_ns: First node's CLOCK_MONOTONIC minus this host's, when the launch begins; later in `status`.
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
    def whole(cls, folder: Path, ranks: int) -> "LocalRanks":
        """Return a part of all ranks on this host, with status and log in the launch's folder."""
        return cls(
            first=0,
            count=ranks,
            ranks=ranks,
            address=LOOPBACK,
            port=0,
            status=folder / STATUS_FILE,
            log=folder / LOG_FILE,
        )

    def environment(self, local_rank: int, port: int) -> dict[str, str]:
        """Return the variables of a rank's process: torchrun's and ours. `port`: the store's."""
        return {
            "RANK": str(self.first + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(self.ranks),
            "LOCAL_WORLD_SIZE": str(self.count),
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "overlayccl",  # tells libraries: all this is set
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is not rank 0's
            STATUS: str(self.status),
        }


def log_of(node: int) -> str:
    """Name the log of a node's ranks, in the folder of a launch."""
    return LOG_FILE.replace(".", f"-{node}.") if node else LOG_FILE
