"""Whether a stored theta still holds: probes to time again, what they say, and which choices would change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.costmodel.drift import LOCAL, MIXED, Drift, Retimed, kind_of, kinds_of
from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.statistics import Ratio, trimmed_mean
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import run_command
from overlayccl_core.tables.sidecar import read_unchanged
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]
APART = 1.96 * 2**0.5 / 1.2816  # of normal errors: the 95% interval of a difference over half the 80% range
STRUCTURED, HELD_OUT = "structured", "heldout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a run knows: its probes, theta, and the finalists of all Problems with their bench.

    They are read from its folder and are no inputs of a rule, so asking about drift makes none of them again.
    """

    probes: pl.DataFrame
    theta: Theta
    finalists: pl.DataFrame
    bench: pl.DataFrame

    @classmethod
    def read(cls, tree: Path) -> "Stored":
        """Read a results tree. ValueError before its fit, with the command."""
        if not all((tree / f"{one.name}.parquet").exists() for one in (PROBES, THETA, FIDELITY)):
            raise ValueError(
                f"{tree}: nothing was fitted yet, so nothing can have drifted: {run_command(tree)}"
            )
        probes, theta, fidelity = (
            read_unchanged(one, tree / f"{one.name}.parquet") for one in (PROBES, THETA, FIDELITY)
        )
        whole = [file.parent for file in sorted(tree.glob(f"problems/*/{FINALISTS.name}.parquet"))]
        whole = [folder for folder in whole if (folder / f"{BENCH.name}.parquet").exists()]
        finalists, bench = (
            pl.concat(
                [
                    pl.DataFrame(schema=one.schema),
                    *(read_unchanged(one, folder / f"{one.name}.parquet") for folder in whole),
                ]
            )
            for one in (FINALISTS, BENCH)
        )
        return cls(probes=probes, theta=theta_of(theta, fidelity), finalists=finalists, bench=bench)


def probes_to_time(stored: Stored, *, of_a_kind: int, mixed: int) -> list[Row]:
    """Return rows of `probes`: of each kind of call of the finalists, of local work, and held-out ones.

    Those of a kind are spread over its times, without the extremes, so that counts and bytes are told apart.
    Held-out Programs are in no fit, so their intervals are honest ones.
    """
    used = {kind for text in stored.finalists["program_json"].unique() for kind in kinds_of(_features(text))}
    once = stored.probes.unique("program", keep="first", maintain_order=True)
    old = {p: trimmed_mean(one.samples_us) for p, one in measurements(once.iter_rows(named=True)).items()}
    by_kind: dict[str, list[Row]] = {}
    for row in once.iter_rows(named=True):
        counted = _features(row["program_json"])
        if row["program"] in old and price_features(counted, stored.theta).us:
            kind = HELD_OUT if row["role"] == HELD_OUT else kind_of(counted)
            if row["role"] in (STRUCTURED, HELD_OUT):
                by_kind.setdefault(kind, []).append(row)
    wanted = {**dict.fromkeys((*sorted(used), LOCAL), of_a_kind), HELD_OUT: mixed}
    return [row for kind, most in wanted.items() for row in _spread(by_kind.get(kind, []), old, most)]


def _spread(rows: Sequence[Row], old: Mapping[str, Any], most: int) -> Iterator[Row]:
    """Yield at most so many rows, at evenly spaced places in the order of their old times."""
    ordered = sorted(rows, key=lambda row: old[row["program"]])
    count = min(most, len(ordered))
    yield from (ordered[int((k + 0.5) * len(ordered) / count)] for k in range(count))


def drift_of(stored: Stored, reprobes: pl.DataFrame) -> tuple[list[Row], Drift]:
    """Return the rows of `drift`, and the factors of theta's groups. reprobes: the table of that name."""
    old = measurements(stored.probes.iter_rows(named=True))
    new = measurements(reprobes.iter_rows(named=True))
    rows, retimed = [], []
    for row in reprobes.unique("program", keep="first", maintain_order=True).iter_rows(named=True):
        counted = _features(row["program_json"])
        then, now = old[row["program"]].estimate.value, new[row["program"]]
        predicted = price_features(counted, stored.theta)
        assert predicted.us is not None and predicted.low_us is not None and predicted.high_us is not None
        retimed.append(Retimed(features=counted, old_us=then, new_us=now.estimate.value))
        rows.append(
            {
                "probe": row["probe"],
                "kind": MIXED if row["role"] == HELD_OUT else kind_of(counted),
                "old_us": then,
                "predicted_us": predicted.us,
                "low_us": predicted.low_us,
                "high_us": predicted.high_us,
                "new_us": now.estimate.value,
                "was_within": predicted.low_us <= then <= predicted.high_us,
                "within": predicted.low_us <= now.estimate.value <= predicted.high_us,
                "disturbed": now.disturbed,
                "fingerprint": now.fingerprint,
            }
        )
    return rows, Drift(stored.theta, retimed)


def choices_after(stored: Stored, drift: Drift) -> Iterator[Row]:
    """Yield the rows of `drifted_choices`: bench times, scaled by how much the price of each finalist changed."""
    places: dict[Place, dict[str, Row]] = {}
    for row in stored.finalists.iter_rows(named=True):
        places.setdefault(place_of(row), {}).setdefault(row["program"], row)
    for place, programs in places.items():
        case, direction = place
        here = stored.bench.filter(case=case, direction=direction)
        timed = {one: of for one, of in measurements(here.iter_rows(named=True)).items() if one in programs}
        counted = {one: _features(programs[one]["program_json"]) for one in timed}
        if counted := {one: of for one, of in counted.items() if price_features(of, stored.theta).us}:
            found = _Finalists(programs, timed, counted, drift)
            yield {"problem": problem_of(case), "case": case, "direction": direction, **found.row()}


class _Finalists:
    """The finalists of a Case and direction that have a time and a price, by Program."""

    def __init__(
        self,
        rows: Mapping[str, Row],
        timed: Mapping[str, Measurement],
        counted: Mapping[str, Features],
        drift: Drift,
    ) -> None:
        self._rows, self._timed, self._counted, self._drift = rows, timed, counted, drift
        self._old = {one: timed[one].estimate.value for one in counted}
        self._new = {one: us * drift.of(counted[one]) for one, us in self._old.items()}

    def row(self) -> Row:
        """Return the columns about the cheapest, then and now."""
        then, now = (min(us, key=lambda one: us[one]) for us in (self._old, self._new))
        gain = self._gain(then, now)
        return {
            "cheapest": self._rows[then]["candidate"],
            "old_us": self._old[then],
            "new_us": self._new[then],
            "now_cheapest": self._rows[now]["candidate"],
            "now_us": self._new[now],
            **{"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high},
            "changes": gain.beyond_noise,
            "fingerprint": self._timed[then].fingerprint,
        }

    def _gain(self, then: str, now: str) -> Ratio:
        """Return the scaled time of one over the other's: their ratio in the bench, and what drift made of it."""
        if then == now:
            return Ratio(value=1.0)
        benched = self._timed[now].speedup_over(self._timed[then])
        drifted = self._drift.of_ratio(self._counted[then], self._counted[now])
        return times(benched, drifted) if benched else drifted


def times(a: Ratio, b: Ratio) -> Ratio:
    """Return the product of two independent ratios: half-widths of logarithms add in squares."""
    value = a.value * b.value
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Ratio(value=value)
    below = np.hypot(log(a.value / a.low), log(b.value / b.low))
    above = np.hypot(log(a.high / a.value), log(b.high / b.value))
    return Ratio(value=value, low=float(value * np.exp(-below)), high=float(value * np.exp(above)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDrift:
    """The probes of a kind: how many, their median of new over old time, and whether it is beyond the interval."""

    kind: str
    probes: int
    factor: float
    beyond: bool


def kinds_drifted(drift: pl.DataFrame) -> list[KindDrift]:
    """Return how far each kind moved, from the table `drift`.

    A kind moved if its factor is beyond the 95% interval of a difference of two prices, which follows from the
    prediction's range (10% to 90%) as for normal errors.
    """
    first = drift.row(0, named=True)
    most = (first["high_us"] / first["low_us"]) ** (APART / 2)
    found = []
    for (kind,), rows in drift.group_by("kind", maintain_order=True):
        factor = median((rows["new_us"] / rows["old_us"]).to_list())
        beyond = not 1 / most <= factor <= most
        found.append(KindDrift(kind=str(kind), probes=rows.height, factor=factor, beyond=beyond))
    return found


def holds(kinds: Iterable[KindDrift]) -> bool:
    """Return whether theta still holds: no kind moved beyond the interval."""
    return not any(one.beyond for one in kinds)


@cache
def _features(program_json: str) -> Features:
    return features(loads(program_json))
