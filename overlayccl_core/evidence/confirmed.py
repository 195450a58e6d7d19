"""What stands and what it is worth: from launches that chose nothing to rows of `deployed` and `splits`.

What was chosen stands unless these launches show that it is slower, beyond noise, than something that needs no
search and takes no more memory. That then takes its place: deployed if it is a Program, else to be kept as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.configuration.models import of_labels
from overlayccl_core.evidence.benched import Benched, model_choice, regret
from overlayccl_core.evidence.predictions import Place, Prediction
from overlayccl_core.evidence.splits import Split, chosen_split, rivals_of, splits_of
from overlayccl_core.gates.verdict import Gate, Outcome
from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH, ArmName, is_framework, stands_as
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.tables.deployed import Part, Use

Row = dict[str, Any]
Label = tuple[str, int]  # a model at a count of microbatches


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTables:
    """Steps and stamps of all models: of training, by which was chosen, and of the launches after it."""

    steps: pl.DataFrame
    stamps: pl.DataFrame
    confirmed_steps: pl.DataFrame
    confirmed_stamps: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A model in the launches that chose nothing: every split, what was chosen, its fastest rival, and what takes
    its place (None: it stands). None, too, for what was not timed."""

    splits: tuple[Split, ...]
    chosen: Split | None
    rival: Split | None
    instead: Split | None

    @property
    def at_counts(self) -> dict[int, str]:
        """Count of microbatches -> the arm that takes the place of what was chosen there, where it does not stand.

        Rivals are those of the same count; of the count that was chosen, those of any. Where the framework's own
        is faster than that, nothing of the model is deployed.
        """
        found = {}
        for one in self.splits:
            if one.arm == ArmName.DEPLOYED and one is not self.chosen:
                same = (r for r in rivals_of(one, self.splits) if r.microbatches == one.microbatches)
                if (better := quicker(one, same)) is not None:
                    found[one.microbatches] = better.arm
        if self.instead is not None and is_framework(self.instead.arm):
            return {one.microbatches: self.instead.arm for one in self.splits}
        return found if self.instead is None else {**found, self.instead.microbatches: self.instead.arm}


def headline_of(model: str, chosen: Mapping[int, str], tables: StepTables) -> Headline:
    """chosen: of `chosen_as`. Training chose the count of microbatches; all else is of the launches after it."""
    trained = chosen_split(chosen, splits_of(model, tables.steps, tables.stamps))
    splits = splits_of(model, tables.confirmed_steps, tables.confirmed_stamps, plain=tables.stamps)
    here = (trained.microbatches, ArmName.DEPLOYED) if trained else None
    mine = next((one for one in splits if (one.microbatches, one.arm) == here), None)
    rivals = rivals_of(mine, splits) if mine else []
    return Headline(
        splits=tuple(splits),
        chosen=mine,
        rival=min(rivals, key=lambda one: one.us, default=None),
        instead=quicker(mine, rivals) if mine else None,
    )


def quicker(mine: Split, rivals: Iterable[Split]) -> Split | None:
    """The fastest of those than which it is slower beyond noise."""
    faster = [one for one in rivals if (gain := mine.seen.speedup_over(one.seen)) and gain.slower]
    return min(faster, key=lambda one: one.us, default=None)


def instead_at(choices: Iterable[pl.DataFrame], headlines: Mapping[str, Headline]) -> dict[Place, str]:
    """(case, direction) -> the arm that takes the place of what was chosen, where it does not stand in a step.

    choices: the table of every Problem. Steps that share a Case are decided together, as they were chosen. A Case
    of a step that stands as its model's choice stays: another count's or model's verdict takes nothing from it.
    """
    standing = {
        (model, one.chosen.microbatches)
        for model, one in headlines.items()
        if one.chosen is not None and one.instead is None
    }
    rows = {
        (row["case"], row["direction"]): labels
        for choice in choices
        for row in choice.iter_rows(named=True)
        if standing.isdisjoint(labels := of_labels(row["trained_in"]))
    }
    arms: dict[Label, str] = {
        (model, m): arm for model, one in headlines.items() for m, arm in one.at_counts.items()
    }
    known = -1
    while known != len(arms):
        known = len(arms)
        for labels in rows.values():
            if arm := next((arms[label] for label in labels if label in arms), None):
                arms = dict.fromkeys(labels, arm) | arms
    return {place: arms[labels[0]] for place, labels in rows.items() if labels and labels[0] in arms}


def ratio_columns(name: str, ratio: Ratio | None) -> Row:
    """The three columns of a ratio; null without one."""
    values = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


# ------------------------------------------------------------------------------------------ Cases and directions
def deployed_row(
    place: Place,
    choice: Row,
    confirmed: pl.DataFrame,
    shortlisted: Sequence[Benched],
    predicted: Mapping[tuple[str, str, str], Prediction],
    verdicts: pl.DataFrame,
    instead: str | None,
) -> Row:
    """The row of `deployed`, without the price of the pair. confirmed, verdicts: of this Case and direction.

    instead: what takes its place in a step (`instead_at`).
    """
    arms = {
        arm: next(iter(measurements(confirmed.filter(pl.col("arm") == arm).iter_rows(named=True)).values()))
        for arm in confirmed["arm"].unique(maintain_order=True)
    }
    mine = arms.get(ArmName.DEPLOYED)
    one = next(b for b in shortlisted if b.candidate == choice["candidate"])
    first = model_choice(place, shortlisted, predicted)
    others = {
        arm: ratio
        for arm, timed in arms.items()
        if arm != ArmName.DEPLOYED
        and mine
        and timed.program != mine.program
        and (ratio := mine.speedup_over(timed))
    }
    best = min(others, key=lambda arm: others[arm].value, default=None)
    alone = min((a for a, r in others.items() if r.slower), key=lambda arm: others[arm].value, default=None)
    price = predicted.get((*place, choice["program"]))
    decided = verdicts.filter((pl.col("gate") == Gate.CHOICE) & (pl.col("outcome") == Outcome.PASS))
    return {
        "problem": problem_of(place[0]),
        **{
            name: choice[name] for name in ("case", "direction", "candidate", "arm", "numerics", "trained_in")
        },
        **_use(choice["arm"], instead or alone, problem_of(place[0])),
        "predicted_us": price.us if price else None,
        "measured_us": mine.estimate.value if mine else None,
        **ratio_columns("speedup", others.get(ArmName.DEVELOPER)),
        **ratio_columns("gain", others[best] if best else None),
        "best_other": best,
        "launches": len(mine.launches) if mine else 0,
        "regret": regret(one, shortlisted),
        "model_regret": regret(first, shortlisted) if first else None,
        "reason": decided["message"][0],
        "disturbed": mine.mostly_disturbed if mine else None,
        "fingerprint": mine.fingerprint if mine else None,
    }


def _use(arm: str, instead: str | None, problem: str) -> Row:
    """The columns `use` and `instead` of what was chosen as an arm."""
    instead = None if instead == arm else instead
    used = stands_as(instead or arm, problem)
    use = Use.FRAMEWORK if is_framework(used) else Use.KNOWN if used in NEEDS_NO_SEARCH else Use.FOUND
    return {"use": use.value, "instead": instead}


def add_pairs(rows: Sequence[Row]) -> None:
    """predicted_pair_us: a direction that is not listed exchanges nothing and costs nothing.

    And a Case has both directions in a file, or none: where the framework's own is kept in one, it is in both.
    """
    for mine in rows:
        of_case = [other for other in rows if other["case"] == mine["case"]]
        us = [other["predicted_us"] for other in of_case]
        mine["predicted_pair_us"] = None if None in us else sum(us)
        for kept in (other for other in of_case if other["use"] == Use.FRAMEWORK):
            mine |= {name: kept[name] for name in ("use", "instead")}


# --------------------------------------------------------------------------------------------------------- models
def split_rows(model: str, of: Headline, fingerprint: str) -> list[Row]:
    """The rows of `splits` of a model."""
    parts = ((Part.DEPLOYED, of.chosen), (Part.INSTEAD, of.instead), (Part.RIVAL, of.rival))
    rows = []
    for one in of.splits:
        part = next((name for name, it in parts if one is it), Part.BESIDE)
        slower = of.chosen.seen.speedup_over(one.seen) if of.chosen and one is not of.chosen else None
        rows.append(
            {
                "model": model,
                "microbatches": one.microbatches,
                "arm": one.arm,
                "ran_as": one.ran_as,
                "part": part,
                "needs_search": one.needs_search,
                "step_us": one.us,
                "peak_memory_bytes": one.seen.peak_memory_bytes,
                **ratio_columns("slower", slower),
                "launches": len(one.seen.steps_us),
                "disturbed": one.seen.mostly_disturbed,
                "fingerprint": fingerprint,
            }
        )
    return rows
