"""What is deployed and what it is worth: from launches that chose nothing to rows of `deployed` and `splits`."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from overlayccl_core.evidence.benched import Benched, model_choice, regret
from overlayccl_core.evidence.predictions import Place, Prediction
from overlayccl_core.evidence.splits import chosen_split, rivals_of, splits_of
from overlayccl_core.gates.verdict import Gate, Outcome
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.tables.deployed import Part

Row = dict[str, Any]


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
) -> Row:
    """The row of `deployed`, without the price of the pair. confirmed, verdicts: of this Case and direction."""
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
    price = predicted.get((*place, choice["program"]))
    decided = verdicts.filter((pl.col("gate") == Gate.CHOICE) & (pl.col("outcome") == Outcome.PASS))
    return {
        "problem": problem_of(place[0]),
        **{
            name: choice[name] for name in ("case", "direction", "candidate", "arm", "numerics", "trained_in")
        },
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


def add_pairs(rows: Sequence[Row]) -> None:
    """predicted_pair_us: a direction that is not listed exchanges nothing and costs nothing."""
    for mine in rows:
        of_case = [other["predicted_us"] for other in rows if other["case"] == mine["case"]]
        mine["predicted_pair_us"] = None if None in of_case else sum(of_case)


# --------------------------------------------------------------------------------------------------------- models
def split_rows(
    model: str,
    chosen: Mapping[int, str],
    steps: pl.DataFrame,
    stamps: pl.DataFrame,
    confirmed_steps: pl.DataFrame,
    confirmed_stamps: pl.DataFrame,
) -> list[Row]:
    """The rows of `splits` of a model. chosen: count of microbatches -> the arm that its Cases were chosen as.

    steps, stamps: of training, by which the count of microbatches is chosen; what it is worth is of the confirmed.
    """
    trained = chosen_split(chosen, splits_of(model, steps, stamps))
    splits = splits_of(model, confirmed_steps, confirmed_stamps, plain=stamps)
    here = (trained.microbatches, ArmName.DEPLOYED) if trained else None
    deployed = next((one for one in splits if (one.microbatches, one.arm) == here), None)
    rivals = rivals_of(deployed, splits) if deployed else []
    rival = min(rivals, key=lambda one: one.us, default=None)
    rows = []
    for one in splits:
        part = Part.DEPLOYED if one is deployed else Part.RIVAL if one is rival else Part.BESIDE
        slower = deployed.seen.speedup_over(one.seen) if deployed and one is not deployed else None
        rows.append(
            {
                "model": model,
                "microbatches": one.microbatches,
                "arm": one.arm,
                "ran_as": one.ran_as,
                "part": part,
                "needs_search": one.needs_search,
                "step_us": one.us,
                "peak_activation_bytes": one.seen.peak_activation_bytes,
                **ratio_columns("slower", slower),
                "launches": len(one.seen.steps_us),
                "disturbed": one.seen.mostly_disturbed,
                "fingerprint": confirmed_steps["fingerprint"][0],
            }
        )
    return rows
