"""The gain of a model, split: from the steps of the arms between its two sides to the effect of each factor."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import label
from overlayccl_core.evidence.confirmed import ratio_columns
from overlayccl_core.evidence.part_arms import SAME_CALLS, ComparedParts
from overlayccl_core.evidence.trained import arms_by_model, failed_arms, judged, ran_by
from overlayccl_core.gates.training import ArmEvidence, passes
from overlayccl_core.measuring.arms import arm_label
from overlayccl_core.measuring.effects import NONE, Effects, Told, half_width
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio

Row = dict[str, Any]
Step = tuple[int, str]  # count of microbatches, arm
ALL = ("all",)  # factors, taken as one


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTables:
    """Tables of the target, of one model or of all."""

    arms: pl.DataFrame
    steps: pl.DataFrame
    stamps: pl.DataFrame

    def of(self, model: str) -> "PartTables":
        """Return the rows of one model."""
        return PartTables(
            arms=self.arms.filter(pl.col("model") == model),
            steps=self.steps.filter(pl.col("model") == model),
            stamps=self.stamps.filter(pl.col("model") == model),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """The gain of a model in its parts. without: why there are none; empty: there are."""

    sides: ComparedParts
    told: tuple[Told, ...] = ()
    launches: int = 0
    disturbed: bool = False
    without: str = ""
    arms: pl.DataFrame = field(default_factory=pl.DataFrame)  # the model's rows of `part_arms`

    @property
    def half_width(self) -> float | None:
        """How far the ends of the whole's interval are from its middle."""
        return half_width(self.told[0].ratio) if self.told else None


def decomposition(sides: ComparedParts, tables: PartTables) -> Decomposition:
    """Return the parts of a model's gain; tables: its rows."""
    if sides.nothing:
        return Decomposition(sides=sides, without=sides.nothing)
    if tables.arms.is_empty():
        return Decomposition(sides=sides, without=SAME_CALLS)
    sets = _sets(tables.arms)
    seen, wrong = _trained(sets, tables)
    if wrong:
        return Decomposition(sides=sides, without=wrong, arms=tables.arms)
    effects = Effects(
        factors=max(sets, key=len), us={frozenset(some): one.steps_us for some, one in seen.items()}
    )
    if not effects.launches:
        return Decomposition(sides=sides, without="its arms have no launch in common", arms=tables.arms)
    return Decomposition(
        sides=sides,
        told=tuple(effects.told()),
        launches=len(effects.launches),
        disturbed=any(one.mostly_disturbed for one in seen.values()),
        arms=tables.arms,
    )


def _sets(arms: pl.DataFrame) -> dict[tuple[str, ...], tuple[str, str]]:
    """Factors in their order -> (`nano m8`, the arm with them)."""
    return {
        tuple(row["factors"].split(", ") if row["factors"] else ()): (
            label(row["model"], row["microbatches"]),
            row["arm"],
        )
        for row in arms.iter_rows(named=True)
    }


def _trained(
    sets: Mapping[tuple[str, ...], tuple[str, str]], tables: PartTables
) -> tuple[dict[tuple[str, ...], ArmEvidence], str]:
    """The evidence of each set; and why it does not count: an arm that failed, or trains wrongly."""
    by_model, failed = arms_by_model(tables.steps, tables.stamps), failed_arms(tables.steps, tables.stamps)
    places: dict[tuple[str, str], dict[str, Row]] = {}
    for row in tables.arms.iter_rows(named=True):
        places.setdefault((row["case"], row["direction"]), {})[row["arm"]] = row
    ran, seen = ran_by(places), {}
    for factors, (model, arm) in sets.items():
        arms = by_model.get(model, {})
        verdicts = (
            (failed[model, arm],) if (model, arm) in failed else judged(model, arm, arms, tables.stamps, ran)
        )
        if not passes(verdicts):
            why = next(verdict.message for verdict in verdicts if not passes((verdict,)))
            return {}, f"{arm_label(arm)} of {model} does not count: {why}"
        seen[factors] = arms[arm]
    return seen, ""


def whole_of(rows: Iterable[Row], developer: Step, deployed: Step) -> Ratio | None:
    """Return the gain of all factors, from rows of `steps` so far; None before both of its sides were timed.

    developer, deployed: the count of microbatches and the arm of each side, as trained.
    """
    us: dict[Step, dict[int, list[float]]] = {developer: {}, deployed: {}}
    for row in rows:
        step = row["microbatches"], row["arm"]
        if step in us and row["purpose"] == Purpose.TIMED and row["steps_us"]:
            us[step][row["launch"]] = row["steps_us"]
    effects = Effects(factors=ALL, us={NONE: us[developer], frozenset(ALL): us[deployed]})
    return effects.whole if effects.launches else None


def part_rows(one: Decomposition, fingerprint: str) -> list[Row]:
    """Return the rows of `parts` of a model."""
    return [
        {
            "model": one.sides.model,
            "effect": told.effect.value,
            "factors": ", ".join(told.factors),
            **ratio_columns("ratio", told.ratio),
            "share": told.share,
            "launches": one.launches,
            "fingerprint": fingerprint,
        }
        for told in one.told
    ]
