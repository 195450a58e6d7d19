"""What lanes change: calls in flight in process groups of their own: `python -m benchmarks lanes`.

Two hosts of one rank, joined by a link of 400 Mbit/s, and two ranks on one host. A ratio above 1: so many groups
are faster than one, until the call issued last is over (what a pipeline waits for), and until all are.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.lanes_rank import LOADS
from overlayccl_core.launching.launchers.namespaces import on_hosts
from overlayccl_core.launching.local_ranks import NODE
from overlayccl_core.measuring.statistics import ratio_within

RANKS, RATE = 2, "400mbit"
_ROW = "  {:24} {:>6} {:24} {:24}"
_WORKER = str(Path(__file__).with_name("lanes_rank.py"))
AS_RANK = f'RANK=${NODE} exec "$@"'


def report() -> Iterator[str]:
    """A line for each load and number of lanes, on each network."""
    for network, launch in (("a link of 400 Mbit/s", _across), ("one host", _within)):
        yield f"{RANKS} gloo ranks, {network}: how many times as fast as one process group"
        yield _ROW.format("all_reduces in flight", "groups", "until the last is over", "until all are over")
        with tempfile.TemporaryDirectory() as folder:
            launch(folder)
            of_ranks = [json.loads(Path(folder, f"timed-{rank}.json").read_text()) for rank in range(RANKS)]
        slowest = {name: np.max([one[name] for one in of_ranks], axis=0) for name in of_ranks[0]}
        for load in LOADS:
            for lanes in (2, 4):
                one, many = slowest[f"{load}|1"], slowest[f"{load}|{lanes}"]
                ratios = [str(ratio_within(one[:, column], many[:, column])) for column in (0, 1)]
                yield _ROW.format(load, lanes, *ratios)


def _across(folder: str) -> None:
    command = on_hosts(RANKS, RATE, _rank(folder))
    subprocess.run(command, check=True, env=_environment("10.77.0.1", "eth0"))


def _within(folder: str) -> None:
    environment = _environment("127.0.0.1", "lo")
    started = [subprocess.Popen(_rank(folder), env={**environment, NODE: str(rank)}) for rank in range(RANKS)]
    if any([one.wait() for one in started]):
        sys.exit("a rank failed")


def _rank(folder: str) -> Sequence[str]:
    return ["sh", "-ec", AS_RANK, "sh", sys.executable, _WORKER, folder]


def _environment(address: str, interface: str) -> dict[str, str]:
    return {
        **os.environ,
        "MASTER_ADDR": address,
        "MASTER_PORT": "29599",
        "WORLD_SIZE": str(RANKS),
        "GLOO_SOCKET_IFNAME": interface,
        "OMP_NUM_THREADS": "1",
    }
