"""Races: end the rounds of Programs that cannot be the fastest any more.

A race is a set of Programs with one winner to find, for instance the candidates of a Case and direction. Every
Program takes part in the first rounds. A Program slower than the leader beyond noise then leaves for good. So its
samples are from the batch's first rounds, shared with all others, and the seconds go to the close ones.

All Programs run in one launch, so noise is the noise of its rounds, not of launches. After every round each Program
is compared with the leader, and a mistake is final. So the 5% error of an interval is divided among all comparisons
of a race (Bonferroni): look k gets 1 / (k (k + 1)) of it (these add up to 1 however long the race is), and each
Program behind the leader an equal part of that. A bootstrap over few rounds is less exact: in simulated races of 20
rounds 0.5 to 2.8 in 100 of 2 to 10 equal Programs are left behind.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.measuring.statistics import CONFIDENCE, FEWEST_ROUNDS, ratio_within

Samples = Sequence[Sequence[float]]


class Races:
    """Races of Programs timed together, checked after every round; a Program that has left does not come back.

    Attributes:
        races: The races of each Program.
        enough: As in `finished`.
        over: For every Program, whether it has left.
    """

    def __init__(self, races: Sequence[Sequence[str]], *, enough: int) -> None:
        self.races = races
        self.enough = enough
        self.over = [False] * len(races)

    def look(self, samples: Samples) -> bool:
        """Update `over` and tell whether Programs leave. samples: as in `finished`."""
        before = self.over
        ended = finished(self.races, samples, enough=self.enough)
        self.over = [was or now for was, now in zip(before, ended, strict=True)]
        return self.over != before


def finished(races: Sequence[Sequence[str]], samples: Samples, *, enough: int) -> list[bool]:
    """Tell for every Program whether it needs no more rounds.

    Args:
        races: The races of each Program; one in no race stays.
        samples: [Program][round] us, from the first round on.
        enough: After this number of rounds, a Program left alone in its races has won them.
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
    leader = min(jobs, key=lambda job: float(np.median(samples[job])))
    behind = [job for job in jobs if job != leader]
    over = {job: _beaten(samples[job], samples[leader], len(behind)) for job in behind}
    return {**over, leader: won and all(over.values())}


def _beaten(mine: Sequence[float], leading: Sequence[float], behind: int) -> bool:
    """Tell whether the leader is faster beyond noise in common rounds. behind: number of its rivals."""
    rounds = min(len(mine), len(leading))
    look = max(rounds - FEWEST_ROUNDS, 0) + 1
    mistaken = (1 - CONFIDENCE) / (look * (look + 1) * behind)
    return ratio_within(mine[:rounds], leading[:rounds], confidence=1 - mistaken).beyond_noise
