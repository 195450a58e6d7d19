"""Calls beside computing: what a call takes of its rank's core, and how much it slows beside local work.

A call of C microseconds by itself needs `cpu` C of its rank's core. While the core computes, too, the call goes
on at 1 / `slower` of its pace, and takes cpu / slower of the core. So local work of W microseconds that starts
with the call ends at t = W / (1 - cpu / slower). If the call is over before (C slower < t), the work is over after
W + cpu C: long work shows what the call takes of the core. Else the call is over after C + t (1 - 1 / slower):
short work shows the slowdown.

Ranks of a host compute at the same time, so W and C hold what sharing its cores costs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log
from typing import Any

import numpy as np

from overlayccl_core.costmodel.features import reach_of
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Program

CPU = np.linspace(0, 1, 51)
SLOWER = np.linspace(1, 3, 41)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """A call beside computing: the core's part (0..1) of its time, and by what factor the call takes longer."""

    cpu: float
    slower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Times of a call alone, of local work alone, and of both at the same time."""

    call_us: float
    work_us: float
    both_us: float


def both_us(call_us: float, work_us: float, shares: Shares) -> float:
    """Return the time of a call and of local work that start together."""
    left = 1 - shares.cpu / shares.slower  # of the core
    if left * shares.slower * call_us <= work_us:
        return work_us + shares.cpu * call_us
    return call_us + work_us / left * (1 - 1 / shares.slower)


def fit_shares(timed: Sequence[Together]) -> Shares:
    """Return the shares of a grid with the least squared relative error; of equal ones, the least `slower`.

    Work that never outlasts the call does not tell the two apart.
    """

    def error(shares: Shares) -> float:
        return sum((both_us(one.call_us, one.work_us, shares) / one.both_us - 1) ** 2 for one in timed)

    grid = (Shares(cpu=float(cpu), slower=float(slower)) for slower, cpu in product(SLOWER, CPU))
    return min(grid, key=error)


def fit_beside(timed: Iterable[tuple[Program, float]]) -> list[dict[str, Any]]:
    """Return the rows of the table `beside`, without fingerprint.

    Args:
        timed: Programs of a call, of some equal pieces of local work, or of both at the same time (sums), with
            their times in microseconds.
    """
    works: dict[int, float] = {}
    calls: dict[tuple[str, str, int], dict[int, float]] = {}
    for program, us in timed:
        pieces = sum(x.kind is Kind.SUM for x in program.nodes)
        if program.calls:
            calls.setdefault(_key_of(program), {})[pieces] = us
        else:
            works[pieces] = us
    rows = []
    for (kind, reach, size), both in calls.items():
        call_us = both.pop(0)
        seen = [Together(call_us=call_us, work_us=works[pieces], both_us=us) for pieces, us in both.items()]
        shares = fit_shares(seen)
        errors = (abs(both_us(call_us, one.work_us, shares) / one.both_us - 1) for one in seen)
        head = {"kind": kind, "reach": reach, "payload_bytes": size, "call_us": call_us}
        found = {"cpu_share": shares.cpu, "slower": shares.slower, "rel_error": max(errors)}
        rows.append(head | found)
    return rows


def _key_of(program: Program) -> tuple[str, str, int]:
    [[call]] = program.calls
    return call.kind.value, reach_of(call, program.problem.case.ranks_per_node), payload_bytes(call)


class Beside:
    """Shares of the calls of a deployment, by kind, reach and size."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Read the rows of the table `beside`."""
        self._known: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
        for row in sorted(rows, key=lambda one: one["payload_bytes"]):
            of_kind = self._known.setdefault((row["kind"], row["reach"]), [])
            of_kind.append((log(row["payload_bytes"]), row["cpu_share"], row["slower"]))

    def of(self, call: Sequence[Node], ranks_per_node: int) -> Shares | None:
        """Return the shares of a call; None if its kind was not probed at its reach."""
        return self.at(call[0].kind, reach_of(call[0], ranks_per_node), sum(map(payload_bytes, call)))

    def at(self, kind: Kind, reach: str, size: int) -> Shares | None:
        """Return the shares of a call of `size` bytes, between the nearest sizes."""
        if not (known := self._known.get((kind.value, reach))):
            return None
        sizes, cpu, slower = zip(*known, strict=True)
        at = log(size)
        return Shares(cpu=float(np.interp(at, sizes, cpu)), slower=float(np.interp(at, sizes, slower)))
