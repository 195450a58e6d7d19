"""What tuning while a script trains finds, and what it costs: `python -m benchmarks tuned`.

Four gloo ranks: of one host, and of two hosts (two each) joined by a link of 1 Gbit/s. A step makes four
all_reduces,
one after the other. Times are recorded in the ways as deployed; where noise would decide, the tuner is run on
what was recorded, in many random orders.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch.distributed as dist

from benchmarks import open_ways
from benchmarks.passage import settled_us
from benchmarks.tuned_rank import CALLS, CHANGED, QUIET, USUAL
from benchmarks.tuned_trials import TRIALS, trials
from overlayccl_core.launching.launchers.namespaces import on_hosts
from overlayccl_core.launching.local_ranks import NODE
from overlayccl_core.measuring.statistics import ratio_within
from overlayccl_core.process_group.descent import TunedArm, Watch
from overlayccl_core.process_group.online import Tuner
from overlayccl_core.process_group.parts import Key

RANKS, RATE = 4, USUAL[0]
ELEMENTS = (4096, 65_536)  # of float32: 16 KiB, 256 KiB
LIVE = (65_536,)
REPLAYS, AFTER, MOST = 200, 500, 20_000  # runs of the tuner; steps after it has settled, and before
HOSTS = {"one host": 1, f"two hosts, {RATE}": 2}
_WORKER = str(Path(__file__).with_name("tuned_rank.py"))


class Replayed(NamedTuple):
    """One run of the tuner on recorded times.

    Attributes:
        trials: Ways that it tried.
        settled: Steps until it had tried all.
        excess: Time of the AFTER steps after that over those of the fastest way, less 1.
        reopened: How often it began again in them.
    """

    trials: int
    settled: int
    excess: float
    reopened: int


def report() -> Iterator[str]:
    """Lines of each part."""
    for network, hosts in HOSTS.items():
        yield f"{RANKS} gloo ranks, {network}: {REPLAYS} runs on recorded times, {AFTER} steps after each"
        yield _row("all_reduce", "ways", "fastest", "gain", "tried", "settled in", "excess", "90%", "again")
        for name, (ways, every) in _recorded("all", hosts, ELEMENTS).items():
            yield _replays(name, ways, every)
        yield ""
        yield f"{RANKS} gloo ranks, {network}: {QUIET} steps as written"
        for name, (_, seconds) in _recorded("steady", hosts, ELEMENTS).items():
            yield _watched(name, seconds)
        yield ""
    yield f"a script that tunes itself while the link goes from {RATE} to {CHANGED[0]}"
    for name, (_, found) in _recorded("live", 2, LIVE).items():
        yield from _lived(name, found)
    yield ""
    yield f"a settled tuner, over a library that returns at once: {settled_us():.2f} us of CPU time a call more"
    yield ""
    yield f"{TRIALS} trials with a rank that is late, is killed, or whose group is made again, at a random call"
    yield from trials(TRIALS)


def _replays(name: str, arms: Sequence[TunedArm], every: Mapping[str, Sequence[float]]) -> str:
    seconds = {way: np.array(times) for way, times in every.items()}
    means = {way: float(times.mean()) for way, times in seconds.items()}
    fastest = min(means, key=means.__getitem__)
    runs = [replay(arms, seconds, seed) for seed in range(REPLAYS)]
    excess = np.array([run.excess for run in runs])
    return _row(
        name,
        str(len(arms)),
        fastest,
        f"{means['plain'] / means[fastest]:.2f}",
        f"{np.median([run.trials for run in runs]):.0f}",
        f"{np.median([run.settled for run in runs]):.0f}",
        f"{np.median(excess):.1%}",
        f"{np.quantile(excess, 0.9):.1%}",
        str(sum(run.reopened for run in runs)),
    )


def replay(arms: Sequence[TunedArm], seconds: Mapping[str, np.ndarray], seed: int) -> Replayed:
    """Run the tuner on times of steps [rounds] of each way: from a random round on, round after round."""
    random = np.random.default_rng(seed)
    rounds = len(seconds[arms[0].way])
    at = int(random.integers(rounds))
    tuner = Tuner(
        Key("all_reduce", "sum", "float32", 0, RANKS), str(seed), arms, dist.HashStore(), "", leads=True
    )
    cost, settled, fastest = 0.0, 0, min(times.mean() for times in seconds.values())
    for number in range(MOST):
        step = 0.0
        for _ in range(CALLS):
            way = tuner.way(0.0)
            took = float(seconds[way][(at + number) % rounds]) / CALLS
            tuner.took(took)
            step += took
        tuner.end_step()
        if not settled:
            settled = number if tuner.found else 0
            tried = len(tuner.descent.trials)
        elif number - settled < AFTER:
            cost += step
        else:
            break
    return Replayed(tried, settled, cost / (number - settled - 1) / fastest - 1, len(tuner.reopened))


def _watched(name: str, seconds: Sequence[float]) -> str:
    """Say how often a watch over steps as written raised an alarm, and how soon after the link's change."""
    alarms, watch, seen = 0, Watch(), None
    for number, one in enumerate(seconds):
        if watch.feed(one / CALLS):
            watch = Watch()
            if number < QUIET:
                alarms += 1
            elif seen is None:
                seen = number - QUIET
    changed = f"; a link of {CHANGED[0]} {_seen(seen)}" if len(seconds) > QUIET else ""
    return f"  {name:24} false alarms: {alarms}{changed}"


def _seen(steps: int | None) -> str:
    return "not seen" if steps is None else f"seen after {steps} steps"


def _lived(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    first, second = np.array(found["pairs"]).T
    yield f"  {name}: {found['before']} after {found['settled']} steps, {found['trials']} other ways tried"
    yield f"  the change is {_seen(found['seen'])} ({found['alarms']} false alarms before)"
    yield f"  {found['after']} after {found['settled again']} more steps"
    yield f"  in the slow link it is {ratio_within(first, second)} times as fast as what was right before"


def _recorded(course: str, hosts: int, elements: Sequence[int]) -> dict[str, tuple[list[TunedArm], Any]]:
    """Call -> its ways, and what a course of ranks says of it."""
    with tempfile.TemporaryDirectory() as place:
        arms = open_ways.write(Path(place, "ways"), RANKS, elements, hosts)
        _run(course, hosts, place)
        found = json.loads(Path(place, f"{course}.json").read_text())
    return {
        f"{key.elements * 4 // 1024} KiB": (of, found[" ".join(map(str, key))]) for key, of in arms.items()
    }


def _run(course: str, hosts: int, place: str) -> None:
    interface, address = ("eth0", "10.77.0.1") if hosts > 1 else ("lo", "127.0.0.1")
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    words = [
        *(f"--nnodes={hosts}", f"--nproc-per-node={RANKS // hosts}", f"--master-addr={address}"),
        *("--master-port=29587", _WORKER, course, place),
    ]
    command = [*torchrun, "--node-rank=0", *words]
    if hosts > 1:
        started = ["sh", "-c", f'exec {" ".join(torchrun)} --node-rank=${NODE} "$@"', "sh", *words]
        command = on_hosts(hosts, RATE, started)
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[:6000])


def _row(name: str, *cells: str) -> str:
    widths = (6, 34, *[11] * len(cells))
    return f"  {name:12}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
