"""A rank with a link of its own: messages between each two ranks, and what passes each interface meanwhile.

Run as `python rail_worker.py FOLDER`; its place is OVERLAYCCL_NODE. It leaves rank-<r>.json in the folder.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import torch
import torch.distributed as dist

RANKS = 4
PAYLOAD = 2**20
REPEATS = 3
AT_ONCE = (((0, 2),), ((0, 2), (1, 3)), ((0, 2), (1, 2)), ((0, 2), (0, 3)))

Pairs = Sequence[tuple[int, int]]
Passed = dict[str, tuple[int, int]]


def passed() -> Passed:
    """Bytes (in, out) so far, of each interface of this network."""
    told = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, counts = line.partition(":")
        fields = counts.split()
        told[name.strip()] = int(fields[0]), int(fields[8])
    return told


def sent(rank: int, pairs: Pairs) -> float:
    """Seconds until everybody has what is sent to it."""
    mine = torch.zeros(PAYLOAD, dtype=torch.uint8)
    dist.barrier()
    begun = time.monotonic()
    under_way = [dist.irecv(torch.empty_like(mine), source) for source, to in pairs if to == rank]
    under_way += [dist.isend(mine, to) for source, to in pairs if source == rank]
    for one in under_way:
        one.wait()
    dist.barrier()
    return time.monotonic() - begun


def main(folder: Path) -> None:
    rank = int(os.environ["OVERLAYCCL_NODE"])
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    each = {}
    for pair in permutations(range(RANKS), 2):
        before = passed()
        sent(rank, [pair])
        each["{}-{}".format(*pair)] = {
            name: [now - then for now, then in zip(counts, before[name], strict=True)]
            for name, counts in passed().items()
        }
    seconds = [min(sent(rank, pairs) for _ in range(REPEATS)) for pairs in AT_ONCE]
    (folder / f"rank-{rank}.json").write_text(json.dumps({"passed": each, "seconds": seconds}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
