"""Price of a choice by term of the cost model, beside the runner-up's and the developer's.

From tables alone; `overlayccl explain` and the report print the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import polars as pl

from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Place
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.choice import VERDICTS
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES, TERMS_US

Row = Mapping[str, Any]
NAMES = {column: column.removesuffix("_us") for column in TERMS_US}


class PriceSide(StrEnum):
    """Role of a Program in a comparison."""

    CHOSEN = "chosen"
    RUNNER_UP = "runner-up"
    DEVELOPER = "developer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A Program with its price by term and its time in the bench; times in us, None if unknown.

    Attributes:
        terms: name -> us, only terms with a column in the cost model; they add up to predicted_us.
    """

    name: str
    program: str
    predicted_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    measured_us: float | None = None
    measured_low_us: float | None = None
    measured_high_us: float | None = None

    @property
    def order(self) -> tuple[bool, float]:
        """Sort key: measured before predicted ones, fast before slow ones."""
        us = self.measured_us if self.measured_us is not None else self.predicted_us
        return self.measured_us is None, float("inf") if us is None else us

    def timed(self, measured: Measurement) -> "Priced":
        """Return the same with its time in the bench."""
        low, high = measured.estimate.interval()
        us = measured.estimate.value
        return replace(self, measured_us=us, measured_low_us=low, measured_high_us=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The choice at one Case and direction. The runner-up is the fastest other one of the bench; `reason` is the
    message of the choice's verdict.
    """

    case: str
    direction: str
    reason: str
    chosen: Priced
    runner_up: Priced | None
    developer: Priced | None

    @property
    def parts(self) -> tuple[tuple[PriceSide, Priced], ...]:
        """The Programs to compare; the developer's only if it is neither of the others."""
        compared = [(PriceSide.CHOSEN, self.chosen)]
        if self.runner_up is not None:
            compared.append((PriceSide.RUNNER_UP, self.runner_up))
        if self.developer is not None and self.developer.program not in {one.program for _, one in compared}:
            compared.append((PriceSide.DEVELOPER, self.developer))
        return tuple(compared)


def explained_choices(tree: Tree) -> list[Explanation] | None:
    """Return the choices of a run, trained Cases first; None if nothing was chosen."""
    choice, ways, prices = tree.choice, tree.of_problems(KNOWN_WAYS), tree.of_problems(PRICES)
    bench, verdicts = tree.of_problems(BENCH), tree.of_problems(VERDICTS)
    if choice is None or verdicts is None or ways is None or prices is None or bench is None:
        return None
    choice = choice.sort("trained_in", "case", "direction", descending=[False, False, True], nulls_last=True)
    return explanations(choice, verdicts, ways, prices, tree.of_searches(CANDIDATES), bench)


def explanations(
    choice: pl.DataFrame,
    verdicts: pl.DataFrame,
    ways: pl.DataFrame,
    prices: pl.DataFrame,
    candidates: pl.DataFrame | None,
    bench: pl.DataFrame,
) -> list[Explanation]:
    """Return one Explanation for each row of `choice`. candidates: of all searches; None: there are none."""
    known = priced(prices, candidates)
    here = timed(bench)
    decided = verdicts.filter(pl.col("gate") == Gate.CHOICE, pl.col("outcome") == Outcome.PASS)
    reasons = {(row["case"], row["direction"]): row["message"] for row in decided.iter_rows(named=True)}
    developers = {
        (row["case"], row["direction"]): row["program"]
        for row in ways.filter(pl.col("role") == Role.DEVELOPER).iter_rows(named=True)
    }
    return [
        _explanation(row, reasons.get(place, ""), known, here, developers.get(place))
        for row in choice.iter_rows(named=True)
        for place in [(row["case"], row["direction"])]
    ]


def _explanation(
    row: Row,
    reason: str,
    known: Mapping[tuple[str, str, str], Priced],
    timed: Mapping[Place, Mapping[str, tuple[str, Measurement]]],
    developer: str | None,
) -> Explanation:
    place = (row["case"], row["direction"])
    here = timed.get(place, {})

    def one(program: str) -> Priced:
        name, measured = here.get(program, (None, None))
        found = known.get((*place, program)) or Priced(name=name or row["candidate"], program=program)
        return found if measured is None else found.timed(measured)

    chosen = row["program"]
    others = sorted((one(p) for p in here if p != chosen), key=lambda p: p.order)
    if not others:
        rest = (one(key[2]) for key in known if key[:2] == place and key[2] != chosen)
        others = sorted(rest, key=lambda p: p.order)
    return Explanation(
        case=row["case"],
        direction=row["direction"],
        reason=reason,
        chosen=one(chosen),
        runner_up=others[0] if others else None,
        developer=None if developer is None else one(developer),
    )


def priced(
    prices: pl.DataFrame | None, candidates: pl.DataFrame | None
) -> dict[tuple[str, str, str], Priced]:
    """Return (case, direction, program) -> price, for usable Programs only. None: no such table."""
    by_program: dict[tuple[str, str, str], Priced] = {}
    if candidates is not None:
        for row in candidates.filter(pl.col("equivalence") == Outcome.PASS).iter_rows(named=True):
            by_program[row["case"], row["direction"], row["program"]] = priced_of(row["candidate"], row)
    if prices is not None:
        for row in prices.filter(pl.col("feasible")).iter_rows(named=True):
            place = (row["case"], row["direction"], row["program"])
            by_program.setdefault(place, priced_of(row["strategy"], row))
    return by_program


def priced_of(name: str, row: Row) -> Priced:
    """Return the price of a row with `program` and the columns of a price."""
    terms = {NAMES[column]: row[column] for column in TERMS_US if row[column] is not None}
    columns = {column: row[column] for column in ("program", "predicted_us", "low_us", "high_us")}
    return Priced(name=name, **columns, terms=terms)


def timed(bench: pl.DataFrame) -> dict[Place, dict[str, tuple[str, Measurement]]]:
    """Return (case, direction) -> program -> its name there and its samples."""
    by_place: dict[Place, dict[str, tuple[str, Measurement]]] = {}
    for (case, direction), rows in bench.group_by("case", "direction", maintain_order=True):
        samples = measurements(rows.iter_rows(named=True))
        names = {row["program"]: row["candidate"] for row in rows.iter_rows(named=True)}
        by_place[str(case), str(direction)] = {p: (names[p], m) for p, m in samples.items()}
    return by_place


def term_names(parts: Iterable[Priced]) -> list[str]:
    """Return the terms of any of these, in the order of the tables."""
    listed = list(parts)
    return [name for name in NAMES.values() if any(name in one.terms for one in listed)]
