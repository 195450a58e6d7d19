"""Quality of cost models: each fitted to some probes alone, and judged on held-out Programs.

Probes come from the whole sweep (`fixed`), from a model's choice (`agent`), or from random parts of the sweep with
as many seconds as that choice (`fixed_equal_cost`). One launch after the choice timed all Programs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from overlayccl_core.configuration.sections import FitSection
from overlayccl_core.costmodel.features import Feature, Features, Increment, features
from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.costmodel.fit import FitSettings, Observation, fit
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.measuring.statistics import estimate, repeat_error
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.program.json_form import loads

Row = dict[str, Any]
QUANTILE = 0.9


class ProbeSource(StrEnum):
    """Source of the probes for a fit."""

    FIXED = "fixed"
    EQUAL_COST = "fixed_equal_cost"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedProbe:
    """A timed probe; `seconds` is the time of its samples."""

    role: ProbeRole
    features: Features
    samples_us: tuple[float, ...]
    seconds: float

    @property
    def time_us(self) -> float:
        return estimate(self.samples_us).value


def timed_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, TimedProbe]:
    """Map Program -> its timing, from rows with `role` and the timing columns."""
    once = {row["program"]: row for row in rows}
    return {
        program: TimedProbe(
            role=ProbeRole(once[program]["role"]),
            features=features(loads(once[program]["program_json"])),
            samples_us=measured.samples_us,
            seconds=sum(seconds_of(row) for row in rows if row["program"] == program),
        )
        for program, measured in measurements(rows).items()
    }


def seconds_of(row: Mapping[str, Any]) -> float:
    return float(row["repeats"] * sum(row["samples_us"]) / 1e6)


def theta_of(
    timed: Iterable[TimedProbe], section: FitSection, *, bootstraps: int | None = None
) -> Theta | None:
    """Fit the cost model of some probes; None if they are too few.

    Random and shape probes judge its optional columns, as in the fit of a run; if they are too few, all do.

    Args:
        bootstraps: Number of them, for intervals; None: as configured.
    """
    settings = FitSettings(
        ridge=section.ridge, bootstraps=bootstraps or section.bootstraps, seed=section.seed
    )
    some = list(timed)
    judges = sum(one.role.judges for one in some)
    observations = [
        Observation(
            features=one.features,
            time_us=one.time_us,
            judges=one.role.judges or judges < settings.folds,
        )
        for one in some
    ]
    return fit(observations, settings).theta if len(observations) >= settings.folds else None


def arms(
    timed: Mapping[str, TimedProbe],
    fixed: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
    section: FitSection,
    *,
    draws: int,
) -> Iterator[Row]:
    """Yield a row of `probing` for each arm, all judged on the same Programs.

    Args:
        timed: Programs, held-out ones among them.
        fixed: Programs of the sweep.
        chosen: Agent -> its Programs.
        draws: Random parts of the sweep for each agent.
    """
    heldout = [one for one in timed.values() if one.role is ProbeRole.HELD_OUT]
    wanted = _columns([*heldout, *(timed[program] for program in fixed)])

    def row(arm: ProbeSource, programs: Sequence[str], search: str | None = None, draw: int = 0) -> Row:
        some = [timed[program] for program in programs]
        return {
            "arm": arm.value,
            "search": search,
            "draw": draw,
            "probes": len(some),
            "seconds": sum(one.seconds for one in some),
            **judged(theta_of(some, section, bootstraps=2), heldout, wanted),
        }

    yield row(ProbeSource.FIXED, fixed)
    for search, programs in chosen.items():
        yield row(ProbeSource.AGENT, programs, search)
        seconds = sum(timed[program].seconds for program in programs)
        for draw in range(draws if programs else 0):
            yield row(ProbeSource.EQUAL_COST, part_of(fixed, timed, seconds, draw), search, draw)


def part_of(programs: Sequence[str], timed: Mapping[str, TimedProbe], seconds: float, draw: int) -> list[str]:
    """Take Programs in random order, each if it still fits into the seconds."""
    part, left = [], seconds
    for index in np.random.default_rng(draw).permutation(len(programs)):
        if (took := timed[programs[index]].seconds) <= left:
            part.append(programs[index])
            left -= took
    return part


def judged(theta: Theta | None, heldout: Sequence[TimedProbe], wanted: Set[Feature]) -> Row:
    """Judge a cost model by Programs outside its fit; None prices nothing.

    Errors are |ln(predicted / measured)| over all Programs. A Program without a price has the largest error, so
    pricing easy ones alone does not help a model.

    Args:
        wanted: Columns in need of a value.
    """
    priced = [(one, None if theta is None else price_features(one.features, theta).us) for one in heldout]
    errors = np.array([abs(np.log(us / x.time_us)) if us else np.inf for x, us in priced])
    scored = [Scored(predicted_us=us, samples_us=one.samples_us) for one, us in priced if us]
    known: Mapping[Feature, float] = {} if theta is None else theta.values
    return {
        "columns": len(wanted),
        "missing": len(wanted - set(known)),
        "heldout": len(heldout),
        "priced": len(scored),
        "median_log_error": _at(errors, 0.5),
        "p90_log_error": _at(errors, QUANTILE),
        "spearman": fidelity(scored).spearman if scored else None,
        "repeat_rel_error": repeat_error(one.samples_us for one in heldout),
    }


def _columns(some: Iterable[TimedProbe]) -> Set[Feature]:
    return {c for one in some for c in one.features if c.increment is Increment.NONE}


def _at(errors: Any, quantile: float) -> float | None:
    """Return a quantile of the errors; None if it falls on a Program without a price."""
    found = float(np.quantile(errors, quantile, method="inverted_cdf"))
    return found if np.isfinite(found) else None
