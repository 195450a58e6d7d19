"""The target of test_online: a rank that makes calls whose ways are open, and writes down in which it made each.

usage: online_rank.py FOLDER RANK COURSE. FOLDER has `ways`, and gets what was found and `<course>-<rank>.json`.
"""

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.process_group import seam, tuned
from overlayccl_core.process_group.bundles import ProvenCall
from overlayccl_core.process_group.group import Group

FAST = "all_to_all_sum"
SLOW, QUICK = 1.0, 0.5  # what the leader's clock says of a call, whatever the machine does
LATE_S = 0.005
ELEMENTS = 8
CALLS = 1400
DEAR = 4.0  # what the fast way costs the rest of a step
LATE = 97  # each so-many-th call of rank 1 comes late


CLOCK = SimpleNamespace(now=0.0)


class Slowed(tuned.Tuned):
    """Calls in their ways, of which one (`fast`) is faster than all others."""

    made_in: list[str]
    fast = FAST
    in_a_way = False

    def _run(self, kept: tuned.Kept, case: str, way: str, calls: list[ProvenCall]) -> None:
        self.made_in.append(way)
        CLOCK.now += QUICK if way == self.fast else SLOW
        self.in_a_way = True
        super()._run(kept, case, way, calls)
        self.in_a_way = False


def train(made: list[str]) -> None:
    """Steps of two calls that go on beside each other, of which the fast way delays the rest."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    for _ in range(CALLS // 2):
        works = [dist.all_reduce(torch.ones(ELEMENTS), async_op=True) for _ in range(2)]
        for work in works:
            work.wait()
        CLOCK.now += DEAR * (made[-1] == FAST)
        parameter.sum().backward()
        optimizer.step()


def main(folder: Path, rank: int, course: str) -> None:
    made: list[str] = []
    slowed: list[Slowed] = []
    own = tuned.plain

    def plain(group: Group, *args: Any) -> Any:
        if not slowed[0].in_a_way:  # a call of the script
            made.append("plain")
            CLOCK.now += SLOW
        return own(group, *args)

    tuned.plain = plain
    tuned.time = SimpleNamespace(perf_counter=lambda: CLOCK.now)

    def passage() -> Slowed:
        slowed.append(Slowed(folder / "ways", folder / f"found-{course}"))
        slowed[0].made_in = made
        return slowed[0]

    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    seam.install(passage, every=True)
    wrong, plans = 0, []
    for number in range(2 if course == "again" else 1):
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store-{course}-{number}", rank=rank, world_size=2
        )
        if number:
            made.append("a new group")
        if course == "steps":
            train(made)
        for call in range(CALLS if course != "steps" else 0):
            if course == "changes" and call == CALLS // 2:
                slowed[0].fast = "gather_and_sum"
            x = torch.full((ELEMENTS,), float(rank + call))
            if rank and call % LATE == 0:
                time.sleep(LATE_S)
            work = dist.all_reduce(x, async_op=bool(call % 3))
            if work is not None:
                work.wait()
            wrong += x.tolist() != [2.0 * call + 1] * ELEMENTS
        plans += [tuner._name for tuner in dist.group.WORLD.kept.tuners.values()]
        dist.destroy_process_group()
    (folder / f"{course}-{rank}.json").write_text(json.dumps({"made": made, "wrong": wrong, "plans": plans}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
