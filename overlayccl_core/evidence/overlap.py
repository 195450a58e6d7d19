"""What overlap is worth in a model's step: the part of its calls that computing hides, and what more would give.

A step is taken apart: its computing alone (quiet), its calls alone (idle), and both, step by step in the same
launches after the choice. The fastest arm whose calls can be in flight while the model computes is compared with
the fastest whose calls are waited for, and with its own calls, each waited for where it starts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.evidence.splits import Split
from overlayccl_core.measuring.arms import is_framework
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Launches, Ratio, over_launches, ratio_over_launches

PAYS = 1.05  # less than this is not worth another arrangement of calls
ARM = ("model", "microbatches", "arm")


PARTS = (Purpose.QUIET, Purpose.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """An arm's step taken apart: launch -> times of steps in us, of both, of the computing and of the calls alone.

    waited: With each call waited for where it starts; None: no call is ever in flight while the model computes.
    """

    model: str
    microbatches: int
    arm: str
    step: Launches
    computing: Launches
    calls: Launches
    waited: Launches | None = None

    @property
    def overlaps(self) -> bool:
        """Whether calls can be in flight while the model computes."""
        return self.waited is not None

    @property
    def hidden(self) -> Ratio:
        """Share of the calls' time that does not lengthen the step; below 0: they lengthen it by more."""
        both = [
            tuple(float(np.median(of[launch])) for of in (self.step, self.computing, self.calls))
            for launch in self.step
        ]
        return over_launches([1 - (step - computing) / calls for step, computing, calls in both])

    @property
    def most_hidden(self) -> float:
        """Share of the calls' time that the computing is long enough to hide."""
        return min(median_us(self.computing) / median_us(self.calls), 1.0)

    @property
    def over_bound(self) -> Ratio | None:
        """The step over the longer of its parts: no order of the same calls and computations makes it shorter."""
        longer = max(self.computing, self.calls, key=median_us)
        return ratio_over_launches(self.step, longer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """A model's two arms; None: none of that kind was trained."""

    model: str
    waited: Apart | None
    overlapped: Apart | None

    @property
    def gain(self) -> Ratio | None:
        """How many times as fast the overlapped arm is as waiting: the waited arm, or its own calls waited for."""
        if self.overlapped is None or self.overlapped.waited is None:
            return None
        ways = [self.overlapped.waited, *([self.waited.step] if self.waited else [])]
        return ratio_over_launches(min(ways, key=median_us), self.overlapped.step)

    @property
    def said(self) -> str:
        """The verdict, and whether more overlap would pay."""
        gain = self.gain
        if gain is None:
            return f"{self.model}: overlap was not tried{self._more()}"
        if gain.beyond_noise:
            return f"{self.model}: overlap pays: {gain} times as fast as waiting{self._more()}"
        if gain.slower:
            return f"{self.model}: overlap does not pay: {gain} times as fast as waiting{self._more()}"
        return f"{self.model}: overlap and waiting cannot be told apart: {gain} times as fast{self._more()}"

    def _more(self) -> str:
        """What hiding all that can be hidden would give, over the faster of the two."""
        best = min(
            (one for one in (self.waited, self.overlapped) if one), key=lambda one: median_us(one.step)
        )
        left = best.over_bound
        if left is None:
            return ""
        if left.high is not None and left.high < PAYS:
            return "; no more can be hidden"
        if left.low is not None and left.low <= 1:
            return f"; whether more could be hidden cannot be told: at most {left} times as fast"
        return f"; hiding all that can be hidden would make it at most {left} times as fast"


def median_us(launches: Launches) -> float:
    """Return the median over launches of their medians."""
    return float(np.median([np.median(us) for us in launches.values()]))


def to_take_apart(
    trained: Iterable[Split], stamps: pl.DataFrame
) -> dict[tuple[int, str], tuple[Purpose, ...]]:
    """Return the fastest arm that waits and the fastest that overlaps, as trained: (M, name) -> purposes of parts.

    No arm of the framework's. stamps: Of the model.
    """
    overlapping = _overlapping(stamps)
    fastest: dict[bool, tuple[int, str]] = {}
    for one in sorted(trained, key=lambda one: one.us):
        if not is_framework(one.arm) and one.arm == one.ran_as:
            arm = one.microbatches, one.arm
            fastest.setdefault(arm in overlapping, arm)
    return {arm: (*PARTS, Purpose.WAITED) if overlaps else PARTS for overlaps, arm in fastest.items()}


def _overlapping(stamps: pl.DataFrame) -> set[tuple[int, str]]:
    """Return the arms (M, name) in which a call of some site can be in flight while the model computes."""
    return {(m, arm) for m, arm in stamps.filter("overlaps").select("microbatches", "arm").iter_rows()}


def overlap_of(model: str, steps: pl.DataFrame) -> Overlap | None:
    """Return what overlap is worth in a model's step, from the table of the launches after the choice.

    None if no arm was taken apart there.
    """
    rows = steps.filter(pl.col("model") == model).filter(pl.col("status") == JobStatus.TRAINED).sort("launch")
    apart = [
        one
        for (_, microbatches, arm), mine in rows.group_by(ARM, maintain_order=True)
        if (one := _apart(model, microbatches, arm, mine))
    ]
    if not apart:
        return None
    return Overlap(
        model=model, waited=_fastest(apart, overlaps=False), overlapped=_fastest(apart, overlaps=True)
    )


def _apart(model: str, microbatches: int, arm: str, rows: pl.DataFrame) -> Apart | None:
    of: dict[str, dict[Any, Sequence[float]]] = {}
    for row in rows.iter_rows(named=True):
        of.setdefault(row["purpose"], {})[row["seed"], row["launch"]] = row["steps_us"]
    if not of.keys() >= {*PARTS}:
        return None
    return Apart(
        model=model,
        microbatches=microbatches,
        arm=arm,
        step=of[Purpose.TIMED],
        computing=of[Purpose.QUIET],
        calls=of[Purpose.IDLE],
        waited=of.get(Purpose.WAITED),
    )


def _fastest(apart: Iterable[Apart], *, overlaps: bool) -> Apart | None:
    return min(
        (one for one in apart if one.overlaps is overlaps), key=lambda one: median_us(one.step), default=None
    )
