"""Samples of Programs as the tables of timings hold them: by Program, launches kept apart."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlayccl_core.measuring import statistics
from overlayccl_core.measuring.statistics import Estimate, Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All samples of one Program: [launch] -> us, one a round.

    oversubscribed, disturbed: true of some launch. fingerprint: of host, libraries and ranks.
    """

    program: str
    launches: Mapping[int, tuple[float, ...]]
    oversubscribed: bool
    disturbed: bool
    fingerprint: str

    @property
    def samples_us(self) -> tuple[float, ...]:
        """The samples of all launches."""
        return tuple(us for launch in sorted(self.launches) for us in self.launches[launch])

    @property
    def estimate(self) -> Estimate:
        """The trimmed mean over all rounds, with its standard error, in us."""
        return statistics.estimate(self.samples_us)

    @property
    def least_us(self) -> float:
        """What one sample in ten is below: nearly the least, and not the luck of one round."""
        return float(np.quantile(self.samples_us, 0.1))

    @property
    def repeat_error(self) -> float:
        """Relative difference between even and odd rounds."""
        return statistics.repeat_error([self.samples_us])

    def speedup_over(self, other: "Measurement") -> Ratio | None:
        """`other`'s time over this one's (2: twice as fast), paired by round; None without a common launch."""
        return statistics.ratio_over_launches(other.launches, self.launches)


def measurements(rows: Iterable[Mapping[str, Any]]) -> dict[str, Measurement]:
    """digest -> Measurement, from rows that have the timing columns; rows without samples are left out."""
    by_program: dict[str, Measurement] = {}
    for row in rows:
        samples = tuple(row["samples_us"])
        if not samples:
            continue
        before = by_program.get(row["program"])
        by_program[row["program"]] = Measurement(
            program=row["program"],
            launches={**(before.launches if before else {}), row["launch"]: samples},
            oversubscribed=row["oversubscribed"] or bool(before and before.oversubscribed),
            disturbed=row["disturbed"] or bool(before and before.disturbed),
            fingerprint=row["fingerprint"],
        )
    return by_program
