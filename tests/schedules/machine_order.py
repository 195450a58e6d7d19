"""Threads stepped one micro-action at a time in a seeded random order; what can go wrong with a schedule."""

from collections import defaultdict
from collections.abc import Generator, Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from random import Random

SHOWN = 3  # threads that a message of a deadlock names

# What a thread yields: None after a micro-action, or what it waits for: a text and the numbers that fill it.
Wait = tuple[Hashable, ...]
Steps = Generator[Wait | None, None, None]


class Fault(Exception):
    """A schedule does not do what it should on this machine, in this order. One line."""


class Wrong(Fault):
    """A result differs: `rank`, `chunk` of its output, `expected` and `got` as sums of chunks of inputs."""

    def __init__(self, rank: int, chunk: int, expected: str, got: str) -> None:
        super().__init__(f"rank {rank}, chunk {chunk} of its output: expected {expected}, got {got}")
        self.rank, self.chunk, self.expected, self.got = rank, chunk, expected, got


class Stuck(Fault):
    """Threads wait for each other, or for what never comes."""


class Broken(Fault):
    """No schedule that a runtime runs: an index outside, a peer that is not there, a message left over."""


@dataclass(eq=False, slots=True)
class Thread:
    """Something that runs by itself, at the step `at`. An `endless` one serves others and may wait at the end."""

    name: str
    endless: bool = False
    at: str = ""
    steps: Steps = field(init=False)


class Order:
    """One random order. Threads have random priorities, and the highest one that can go on does.

    With the share `anew` of micro-actions a thread draws a new priority: all make every interleaving likely, few
    let some threads run far ahead of others. (Probabilistic concurrency testing, Burckhardt et al., ASPLOS 2010: it
    finds what one late thread spoils.)
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._anew = random.choice((1.0, 0.1, 0.01))
        self._ready: list[tuple[float, int, Thread]] = []
        self._waiting = defaultdict[Wait, list[tuple[float, int, Thread]]](list)

    def changed(self, what: Wait) -> None:
        """Those who wait for it look again."""
        for entry in self._waiting.pop(what, ()):
            heappush(self._ready, entry)

    def run(self, threads: Iterable[Thread]) -> None:
        """Until all have ended. Raises Stuck if some cannot."""
        draw, anew, ready, waiting = self._random.random, self._anew, self._ready, self._waiting
        ready.extend((draw(), n, thread) for n, thread in enumerate(threads))
        heapify(ready)
        while ready:
            priority, n, thread = heappop(ready)
            try:
                what = next(thread.steps)
            except StopIteration:
                continue
            if draw() < anew:
                priority = draw()
            if what is None:
                heappush(ready, (priority, n, thread))
            else:
                waiting[what].append((priority, n, thread))
        stuck = [(n, t, what) for what, entries in waiting.items() for _, n, t in entries if not t.endless]
        if stuck:
            raise Stuck(_deadlock(sorted(stuck, key=lambda one: one[0])))


def _deadlock(stuck: list[tuple[int, Thread, Wait]]) -> str:
    """Who waits for what."""
    lines = [f"{t.name}, {t.at}, waits for {str(what[0]).format(*what[1:])}" for _, t, what in stuck[:SHOWN]]
    more = f"; {len(stuck) - SHOWN} more wait" if len(stuck) > SHOWN else ""
    return "; ".join(lines) + more
