"""Which Programs need no more rounds: those that cannot be the fastest of any race that they run in.

A race is of Programs among which one is sought: the candidates of a Case and direction, say. Every Program takes
part in the first rounds. One that is slower than the leader beyond noise leaves then and does not come back, so its
samples are of the batch's first rounds, which it shares with all others; the seconds go to those that are close.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.measuring.statistics import FEWEST_ROUNDS, paired_ratio

Samples = Sequence[Sequence[float]]


def finished(races: Sequence[Sequence[str]], samples: Samples, *, enough: int) -> list[bool]:
    """Of every Program, whether it needs no more rounds.

    races: those that each runs in (one in none stays). samples: [Program][round] us, from the first round on.
    enough: rounds after which one that is alone in its races has won them.
    """
    running: dict[str, list[int]] = {}
    rounds = max(map(len, samples), default=0)
    if rounds < FEWEST_ROUNDS:
        return [False] * len(races)
    for job, names in enumerate(races):
        for name in names:
            running.setdefault(name, []).append(job)
    ends = {name: _is_over(jobs, samples, rounds >= enough) for name, jobs in running.items()}
    return [
        bool(names) and all(ends[name].get(job, False) for name in names) for job, names in enumerate(races)
    ]


def _is_over(jobs: Sequence[int], samples: Samples, won: bool) -> dict[int, bool]:
    """Program -> whether this race is over for it."""
    leader = min(jobs, key=lambda job: float(np.median(samples[job])))
    over = {job: _beaten(samples[job], samples[leader]) for job in jobs if job != leader}
    return {**over, leader: won and all(over.values())}


def _beaten(mine: Sequence[float], leading: Sequence[float]) -> bool:
    """Whether the leader is faster beyond noise, in the rounds of both."""
    rounds = min(len(mine), len(leading))
    return paired_ratio([(mine[:rounds], leading[:rounds])]).beyond_noise
