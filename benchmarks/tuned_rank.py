"""What ranks run for `python -m benchmarks tuned`: the calls of a step, in ways of a folder.

usage: tuned_rank.py COURSE FOLDER. FOLDER has `ways`, whose calls are made one after the other, and gets
`<course>.json` of rank 0. Courses: `all` times a step in every way, in random order; `steady` times steps as they
are written; `live` tunes, changes the rate of the link, goes on, and times both finds.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from overlayccl_core.launching.hosts import QUEUE_BYTES
from overlayccl_core.process_group import seam, tuned
from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.process_group.online import Tuner
from overlayccl_core.process_group.parts import Key
from overlayccl_core.process_group.tuned import Tuned
from overlayccl_core.process_group.ways import ProvenWays

CALLS = 4  # of a step
ROUNDS = 100
QUIET = 2000  # steps
USUAL, CHANGED = (
    ("1gbit", 175_000),
    ("100mbit", 17_500),
)  # rates, and what may pass at once, as of deployments
CHANGED_STEPS = 400
MOST_STEPS = 6000
PAIRS = 30


class Told:
    """In place of a tuner: the way that somebody says."""

    way_now = "plain"

    def __init__(self, *_: Any, **__: Any) -> None:
        self.found = None
        self.leads = False

    def way(self, _now: float, **_: bool) -> str:
        return self.way_now

    def took(self, _seconds: float) -> None:
        """Nothing is learned."""

    def end_step(self) -> None:
        """Nothing is counted."""

    close = end_step


def every_way(key: Key, arms: Sequence[TunedArm], random: np.random.Generator) -> dict[str, list[float]]:
    """Way -> seconds of its steps, all ways once in each round."""
    found: dict[str, list[float]] = {arm.way: [] for arm in arms}
    for number in range(-2, ROUNDS):
        for index in random.permutation(len(arms)).tolist():
            Told.way_now = arms[index].way
            seconds = step(key)
            if number >= 0:
                found[arms[index].way].append(seconds)
    return found


def step(key: Key) -> float:
    """Make the calls of a step; return their seconds."""
    x = torch.ones(key.elements)
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(CALLS):
        dist.all_reduce(x)
        x.fill_(1.0)
    return time.perf_counter() - begin


def change_rate(rate: str, burst_bytes: int) -> None:
    """Give this host's link another rate."""
    if os.environ["LOCAL_RANK"] == "0":
        shape = f"tbf rate {rate} burst {burst_bytes} limit {QUEUE_BYTES}"
        subprocess.run(f"tc qdisc change dev eth0 root {shape}".split(), check=True)
    dist.barrier()


def steady(key: Key) -> list[float]:
    """Seconds of steps as written; the link changes after QUIET of them, if there is one."""
    seconds = [step(key) for _ in range(QUIET)]
    if int(os.environ["GROUP_WORLD_SIZE"]) > 1:  # hosts, as torchrun counts them
        change_rate(*CHANGED)
        seconds += [step(key) for _ in range(CHANGED_STEPS)]
        change_rate(*USUAL)
    return seconds


def live(key: Key, tuner: Tuner) -> dict[str, Any]:
    """Tune, change the link, and go on until another find stands."""
    settled = until(key, tuner, lambda: tuner.found is not None)
    found: dict[str, Any] = {"before": tuner.descent.best.way, "settled": settled}
    found["trials"] = len(tuner.descent.trials)
    until(key, tuner, lambda: False, QUIET // 4)
    alarms = found["alarms"] = len(tuner.reopened)
    until(key, tuner, lambda: tuner.found is not None)
    change_rate(*CHANGED)
    found["seen"] = until(key, tuner, lambda: len(tuner.reopened) > alarms)
    found["settled again"] = until(key, tuner, lambda: tuner.found is not None)
    return {**found, "after": tuner.descent.best.way}


def until(key: Key, tuner: Tuner, is_enough: Callable[[], bool], most: int = MOST_STEPS) -> int:
    """Make steps until the leader says that it is enough; return how many."""
    for number in range(most):
        step(key)
        tuner.end_step()
        enough = torch.tensor(float(tuner.leads and is_enough()))
        dist.broadcast(enough, 0)
        if enough:
            return number + 1
    return most


def pairs(key: Key, found: dict[str, Any], tuner: Tuner) -> list[tuple[float, float]]:
    """Seconds of steps in the first find and in the second, in turns."""
    names = [found["before"], found["after"]]
    dist.broadcast_object_list(names, 0)
    vars(tuner)["way"] = Told().way
    timed = []
    for number in range(PAIRS):
        both = {}
        for name in names[:: 1 if number % 2 else -1]:
            Told.way_now = name
            both[name] = step(key)
        timed.append((both[names[0]], both[names[1]]))
    return timed


def main(course: str, folder: Path) -> None:
    """Make the calls of a course."""
    torch.set_num_threads(1)
    ways = ProvenWays(folder / "ways")
    rank = int(os.environ["RANK"])
    if course != "live":
        vars(tuned)["Tuner"] = Told
    passage = Tuned(folder / "ways")
    seam.install(lambda: passage, every=True)
    dist.init_process_group("gloo")
    found: dict[str, Any] = {}
    for key, case in ways.cases.items():
        name = " ".join(map(str, key))
        if course == "all":
            found[name] = every_way(key, ways.arms[case], np.random.default_rng(key.elements))
        elif course == "steady":
            found[name] = steady(key)
        else:
            step(key)
            [tuner] = dist.group.WORLD.kept.tuners.values()
            found[name] = live(key, tuner)
            found[name]["pairs"] = pairs(key, found[name], tuner)
    if not rank:
        (folder / f"{course}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
