"""Recorded samples of all ways of a call, from which tuners draw in place of measuring."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.measuring.measurements import mostly
from overlayccl_core.measuring.statistics import Ratio, ratio_within
from overlayccl_core.process_group.descent import TunedArm

Floats = NDArray[np.float64]
FEWEST = 2
"""Rounds: one for the truth, one for tuners."""
OTHERS = 3
"""Ways that are timed again beside the call's own."""
DRAWN = 4096
"""Rounds of a course; then they come again."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """Ways of a call in the same rounds.

    Attributes:
        arms: The ways; the first is the call's own.
        samples_us: [ways, rounds].
        repeats: Calls in a sample of each way, [ways].
        disturbed: Whether others took too much of the CPU in most launches.

    Raises:
        ValueError: There are fewer than FEWEST rounds.
    """

    arms: tuple[TunedArm, ...]
    samples_us: Floats = field(repr=False)
    repeats: NDArray[np.int64]
    disturbed: bool = False

    def __post_init__(self) -> None:
        if self.samples_us.shape[1] < FEWEST:
            raise ValueError(
                f"{len(self.arms)} ways of a call have {self.samples_us.shape[1]} rounds in common, and the even "
                f"and the odd ones are compared: give tune.seconds and tune.again.seconds more, for {FEWEST}"
            )

    @classmethod
    def of(cls, arms: Sequence[TunedArm], rows: Iterable[Mapping[str, Any]]) -> "RecordedCall":
        """Return the rounds that all ways have in common. rows: of `timed_ways`, in any order; way: `candidate`."""
        launches: dict[int, dict[str, Mapping[str, Any]]] = {}
        for row in rows:
            launches.setdefault(row["launch"], {})[row["candidate"]] = row
        names = candidates(arms)
        whole = [here for _, here in sorted(launches.items()) if here.keys() >= set(names)]
        blocks = []
        for here in whole:
            rounds = min(here[name]["rounds"] for name in names)
            blocks.append(np.array([here[name]["samples_us"][:rounds] for name in names], np.float64))
        samples = np.concatenate([np.empty((len(arms), 0)), *blocks], axis=1)
        repeats = np.array([whole[0][name]["repeats"] if whole else 1 for name in names])
        disturbed = [
            launch for launch, here in launches.items() if any(row["disturbed"] for row in here.values())
        ]
        return cls(
            arms=tuple(arms),
            samples_us=samples,
            repeats=repeats,
            disturbed=mostly(disturbed, launches),
        )

    @property
    def truth_us(self) -> Floats:
        """The even rounds, which no tuner sees: [ways, rounds]."""
        return self.samples_us[:, ::2]

    @property
    def seen_us(self) -> Floats:
        """The odd rounds: [ways, rounds]."""
        return self.samples_us[:, 1::2]

    @property
    def us(self) -> Floats:
        """The time of each way: the median of the even rounds, [ways]."""
        us: Floats = np.median(self.truth_us, axis=1)
        return us

    @property
    def regrets(self) -> Floats:
        """Of each way over the fastest, less 1: [ways]."""
        us = self.us
        regrets: Floats = us / us.min() - 1
        return regrets

    def gain(self, way: int) -> Ratio:
        """Return the time of the call's own over a way's, in the even rounds."""
        return ratio_within(self.truth_us[0], self.truth_us[way])

    @property
    def to_time_again(self) -> list[int]:
        """The call's own way, and the OTHERS with the least median of all rounds, in their order."""
        us = np.median(self.samples_us, axis=1)
        fastest = sorted(range(1, len(us)), key=lambda way: float(us[way]))
        return [0, *sorted(fastest[:OTHERS])]

    @property
    def look_s(self) -> float:
        """Seconds of one sample of each way."""
        return float((self.seen_us.mean(axis=1) * self.repeats).sum()) / 1e6

    def best_seen(self, among: Iterable[int]) -> int:
        """Return the best of some ways by all odd rounds; of equal ones the first."""
        seen = np.median(self.seen_us, axis=1)
        return min(among, key=lambda way: float(seen[way]))


def candidates(arms: Sequence[TunedArm]) -> list[str]:
    """Return the names of ways in the table `timed_ways`: the call's own is `plain` on ranks only."""
    return [arms[0].family, *(arm.way for arm in arms[1:])]


def both_launches(
    arms: Sequence[TunedArm], rows: Iterable[Mapping[str, Any]]
) -> tuple[RecordedCall, RecordedCall]:
    """Return the first launch, of all ways, and the second, of those in it. rows: of `timed_ways`, of one call."""
    first: list[Mapping[str, Any]] = []
    again: list[Mapping[str, Any]] = []
    for row in rows:
        (again if row["again"] else first).append(row)
    timed = {row["candidate"] for row in again}
    some = [arm for arm, name in zip(arms, candidates(arms), strict=True) if name in timed]
    return RecordedCall.of(arms, first), RecordedCall.of(some, again)


@dataclass(slots=True)
class Draws:
    """What one course of a tuner measures: odd rounds, drawn with replacement.

    Attributes:
        seconds: Of all samples so far, without untimed calls before a sample.
        samples: So far.
    """

    call: RecordedCall
    seed: int
    seconds: float = 0.0
    samples: int = 0
    _us: list[list[float]] = field(default_factory=list)
    _seconds: list[list[float]] = field(default_factory=list)
    _rounds: list[int] = field(default_factory=list)
    _at: int = 0

    def __post_init__(self) -> None:
        seen = self.call.seen_us
        self._us = seen.tolist()
        self._seconds = (seen * self.call.repeats[:, None] / 1e6).tolist()
        self._rounds = np.random.default_rng(self.seed).integers(0, seen.shape[1], DRAWN).tolist()

    def measure(self, *ways: int) -> list[float]:
        """Return a sample of each of these ways (us), all of one round."""
        at = self._rounds[self._at % DRAWN]
        self._at += 1
        self.samples += len(ways)
        self.seconds += sum(self._seconds[way][at] for way in ways)
        return [self._us[way][at] for way in ways]
