"""Samples of Programs, from the tables of timings: by Program, launches kept apart."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlayccl_core.measuring import statistics
from overlayccl_core.measuring.statistics import Estimate, Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """All samples of one Program: [launch] -> us, one a round.

    Attributes:
        oversubscribed: Whether some launch was.
        disturbed_launches: Launches in which others took too much of the CPU.
        fingerprint: Of host, libraries, ranks and environment.
    """

    program: str
    launches: Mapping[int, tuple[float, ...]]
    oversubscribed: bool
    disturbed_launches: frozenset[int]
    fingerprint: str

    @property
    def disturbed(self) -> bool:
        return bool(self.disturbed_launches)

    @property
    def mostly_disturbed(self) -> bool:
        """Whether most launches were disturbed: these samples allow no win."""
        return mostly(self.disturbed_launches, self.launches)

    @property
    def samples_us(self) -> tuple[float, ...]:
        return tuple(us for launch in sorted(self.launches) for us in self.launches[launch])

    @property
    def estimate(self) -> Estimate:
        """The trimmed mean over all rounds, with its standard error, in us."""
        return statistics.estimate(self.samples_us)

    @property
    def least_us(self) -> float:
        """The 10% quantile of the samples: nearly the least, without the luck of one round."""
        return float(np.quantile(self.samples_us, 0.1))

    @property
    def repeat_error(self) -> float:
        """Relative difference between even and odd rounds."""
        return statistics.repeat_error([self.samples_us])

    def speedup_over(self, other: "Measurement") -> Ratio | None:
        """`other`'s time over this one's (2: twice as fast), paired by round; None without a common launch."""
        return statistics.ratio_over_launches(other.launches, self.launches)


def mostly(some: Collection[int], launches: Collection[int]) -> bool:
    return 2 * len(some) > len(launches)


def measurements(rows: Iterable[Mapping[str, Any]]) -> dict[str, Measurement]:
    """Map digest -> Measurement, from rows with the timing columns; rows without samples are left out."""
    by_program: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if len(row["samples_us"]):
            by_program.setdefault(row["program"], []).append(row)
    return {
        program: Measurement(
            program=program,
            launches={row["launch"]: tuple(row["samples_us"]) for row in mine},
            oversubscribed=any(row["oversubscribed"] for row in mine),
            disturbed_launches=frozenset(row["launch"] for row in mine if row["disturbed"]),
            fingerprint=mine[-1]["fingerprint"],
        )
        for program, mine in by_program.items()
    }
