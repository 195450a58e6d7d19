"""How good a cost model becomes of some probes: fitted to them alone, judged on held-out Programs.

Arms: the whole sweep (`fixed`), what a model chose (`agent`), and random parts of the sweep that took as many
seconds as what the model chose (`fixed_equal_cost`). All Programs were timed in one launch, which chose nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from overlayccl_core.configuration.settings import FitSection
from overlayccl_core.costmodel.features import Column, Features, Increment, features
from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.costmodel.fit import FitSettings, Observation, fit
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.measuring.statistics import estimate, repeat_error
from overlayccl_core.probes.probe import Role
from overlayccl_core.program.json_form import loads

Row = dict[str, Any]
QUANTILE = 0.9


class Arm(StrEnum):
    """Whose probes a cost model is fitted to."""

    FIXED = "fixed"
    EQUAL_COST = "fixed_equal_cost"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A probe that was timed. seconds: that its samples took."""

    role: Role
    features: Features
    samples_us: tuple[float, ...]
    seconds: float


def timed_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Timed]:
    """Program to what was timed of it, from rows with `role` and the timing columns."""
    once = {row["program"]: row for row in rows}
    return {
        program: Timed(
            role=Role(once[program]["role"]),
            features=features(loads(once[program]["program_json"])),
            samples_us=measured.samples_us,
            seconds=sum(seconds_of(row) for row in rows if row["program"] == program),
        )
        for program, measured in measurements(rows).items()
    }


def seconds_of(row: Mapping[str, Any]) -> float:
    """Seconds of the samples of a row."""
    return float(row["repeats"] * (sum(row["samples_us"]) + sum(row["cold_us"])) / 1e6)


def theta_of(timed: Iterable[Timed], section: FitSection, *, bootstraps: int | None = None) -> Theta | None:
    """The cost model of some probes; None where they are too few for one.

    Random Programs judge its optional columns, as in the fit of a run; where they are too few, all do. bootstraps:
    for intervals; None: as configured.
    """
    settings = FitSettings(
        ridge=section.ridge, bootstraps=bootstraps or section.bootstraps, seed=section.seed
    )
    some = list(timed)
    judges = sum(one.role is Role.MIXED for one in some)
    observations = [
        Observation(
            features=one.features,
            time_us=estimate(one.samples_us).value,
            judges=one.role is Role.MIXED or judges < settings.folds,
        )
        for one in some
    ]
    return fit(observations, settings).theta if len(observations) >= settings.folds else None


def arms(
    timed: Mapping[str, Timed],
    fixed: Sequence[str],
    chosen: Mapping[str, Sequence[str]],
    section: FitSection,
    *,
    draws: int,
) -> Iterator[Row]:
    """A row of `probing` for each arm, of what all arms have.

    timed: Programs, held-out ones among them. fixed: those of the sweep. chosen: agent to those it chose. draws:
    random parts of the sweep for each agent.
    """
    heldout = [one for one in timed.values() if one.role is Role.HELD_OUT]
    wanted = _columns([*heldout, *(timed[program] for program in fixed)])

    def row(arm: Arm, programs: Sequence[str], search: str | None = None, draw: int = 0) -> Row:
        some = [timed[program] for program in programs]
        return {
            "arm": arm.value,
            "search": search,
            "draw": draw,
            "probes": len(some),
            "seconds": sum(one.seconds for one in some),
            **judged(theta_of(some, section, bootstraps=2), heldout, wanted),
        }

    yield row(Arm.FIXED, fixed)
    for search, programs in chosen.items():
        yield row(Arm.AGENT, programs, search)
        seconds = sum(timed[program].seconds for program in programs)
        for draw in range(draws if programs else 0):
            yield row(Arm.EQUAL_COST, part_of(fixed, timed, seconds, draw), search, draw)


def part_of(programs: Sequence[str], timed: Mapping[str, Timed], seconds: float, draw: int) -> list[str]:
    """Programs in random order, each if it still fits into the seconds."""
    part, left = [], seconds
    for index in np.random.default_rng(draw).permutation(len(programs)):
        if (took := timed[programs[index]].seconds) <= left:
            part.append(programs[index])
            left -= took
    return part


def judged(theta: Theta | None, heldout: Sequence[Timed], wanted: Set[Column]) -> Row:
    """How right a cost model is about Programs that it was not fitted to; without one, how right nothing is.

    Errors are |ln(predicted / measured)| over all of them. One without a price is farther off than any that has
    one, so that a model that prices the easy ones alone is not the better for it. wanted: columns that are to
    have a value.
    """
    prices = [None if theta is None else price_features(one.features, theta).us for one in heldout]
    errors = np.array(
        [
            abs(np.log(us / estimate(one.samples_us).value)) if us else np.inf
            for us, one in zip(prices, heldout, strict=True)
        ]
    )
    scored = [
        Scored(predicted_us=us, samples_us=one.samples_us)
        for us, one in zip(prices, heldout, strict=True)
        if us
    ]
    known: Mapping[Column, float] = {} if theta is None else theta.values
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


def _columns(some: Iterable[Timed]) -> Set[Column]:
    """Those that they have, but for optional ones."""
    return {c for one in some for c in one.features if c.increment is Increment.NONE}


def _at(errors: Any, quantile: float) -> float | None:
    """The error that so many of all are not above; None where that is one without a price."""
    found = float(np.quantile(errors, quantile, method="inverted_cdf"))
    return found if np.isfinite(found) else None
