"""Which Programs need no more rounds: those that cannot be the fastest of any race that they run in.

A race is of Programs among which one is sought: the candidates of a Case and direction, say. Every Program takes
part in the first rounds. One that is slower than the leader beyond noise leaves then and does not come back, so its
samples are of the batch's first rounds, which it shares with all others; the seconds go to those that are close.

All of them run in one launch, so noise is that of its rounds, not of launches. After every round each is compared
with the leader, and one mistake is for good. So the 5% by which an interval may be wrong are shared out among all
comparisons of a race (Bonferroni): look k gets 1 / (k (k + 1)) of them, which adds up to 1 however long the race
is, and each of those behind the leader an equal part of that. A bootstrap over few rounds does not reach as far: in
simulated races of 20 rounds 0.5 to 2.8 in 100 of 2 to 10 equal Programs are left behind.
"""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.measuring.statistics import CONFIDENCE, FEWEST_ROUNDS, ratio_within

Samples = Sequence[Sequence[float]]


class Races:
    """Races of Programs timed together, looked at after every round: one that has left does not come back.

    races: those that each Program runs in. enough: as in `finished`. over: of every Program, whether it has left.
    """

    def __init__(self, races: Sequence[Sequence[str]], *, enough: int) -> None:
        self.races = races
        self.enough = enough
        self.over = [False] * len(races)

    def look(self, samples: Samples) -> bool:
        """Whether some leave. samples: as in `finished`."""
        before = self.over
        ended = finished(self.races, samples, enough=self.enough)
        self.over = [was or now for was, now in zip(before, ended, strict=True)]
        return self.over != before


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
    behind = [job for job in jobs if job != leader]
    over = {job: _beaten(samples[job], samples[leader], len(behind)) for job in behind}
    return {**over, leader: won and all(over.values())}


def _beaten(mine: Sequence[float], leading: Sequence[float], behind: int) -> bool:
    """Whether the leader is faster beyond noise, in the rounds of both. behind: so many are compared with it."""
    rounds = min(len(mine), len(leading))
    look = max(rounds - FEWEST_ROUNDS, 0) + 1
    mistaken = (1 - CONFIDENCE) / (look * (look + 1) * behind)
    return ratio_within(mine[:rounds], leading[:rounds], confidence=1 - mistaken).beyond_noise
