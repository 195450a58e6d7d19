"""Known ways by payload: what is fastest at each. Odd rounds choose, even ones say how long it takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core import catalog
from overlayccl_core.evidence.confirmed import ratio_columns
from overlayccl_core.measuring.measurements import mostly
from overlayccl_core.measuring.statistics import Launches, Ratio, paired_ratio, ratio_over_launches
from overlayccl_core.program.json_form import loads

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWay:
    """The rounds of a way at one payload.

    Attributes:
        row: One of its rows of `timed_payloads`.
        odd, even: launch -> us.
    """

    row: Mapping[str, Any]
    odd: Launches
    even: Launches

    @property
    def name(self) -> str:
        return str(self.row["candidate"])

    @property
    def seen_us(self) -> float:
        """Its time by the odd rounds, by which is chosen."""
        return float(np.median([np.median(us) for us in self.odd.values()]))

    @property
    def us(self) -> Ratio:
        """Its time by the even rounds, with its interval."""
        return paired_ratio([(us, np.ones(len(us))) for us in self.even.values()])


def payload_rows(timed: pl.DataFrame, fingerprint: str) -> list[Row]:
    """Return the rows of `payload_times`. timed: table `timed_payloads`, the developer's way first at each Case.

    Raises:
        ValueError: A way has a single round in a launch, so nothing chooses, or nothing says how long it takes.
    """
    by_case: dict[str, list[TimedWay]] = {}
    for (case, _), rows in timed.group_by(["case", "candidate"], maintain_order=True):
        by_case.setdefault(str(case), []).append(_timed_way(rows))
    return [row | {"fingerprint": fingerprint} for ways in by_case.values() for row in _rows_of(ways)]


def _timed_way(rows: pl.DataFrame) -> TimedWay:
    launches = dict(rows.select("launch", "samples_us").iter_rows())
    row = rows.row(0, named=True)
    if fewest := [launch for launch, us in launches.items() if len(us) < 2]:
        raise ValueError(
            f"{row['case']} {row['candidate']}: a single round in launch {fewest[0]}, and the odd rounds choose "
            "while the even ones say how long it takes: give sweep_payload.seconds more"
        )
    return TimedWay(
        row=row | {"disturbed": mostly(rows.filter("disturbed")["launch"].to_list(), launches)},
        odd={launch: us[1::2] for launch, us in launches.items()},
        even={launch: us[::2] for launch, us in launches.items()},
    )


def _rows_of(ways: Sequence[TimedWay]) -> Iterator[Row]:
    """Yield the rows of one payload."""
    developer, case = ways[0], loads(ways[0].row["program_json"]).problem.case
    by_time = sorted(ways, key=lambda way: way.seen_us)
    best_of = {way.row["family"]: way for way in reversed(by_time)}
    for way in ways:
        us = way.us
        gain = None if way is developer else ratio_over_launches(developer.even, way.even)
        yield {
            **{name: way.row[name] for name in ("problem", "case", "family", "numerics", "disturbed")},
            "payload_bytes": catalog.payload_bytes(case),
            "way": way.name,
            "developer": way is developer,
            "fastest": way is by_time[0],
            "best_of_family": way is best_of[way.row["family"]],
            "time_us": us.value,
            "low_us": us.low,
            "high_us": us.high,
            "busbw_gbps": catalog.bandwidths(case, us.value)[1],
            **ratio_columns("gain", gain),
            "rounds": sum(map(len, way.even.values())),
            "launches": len(way.even),
        }
