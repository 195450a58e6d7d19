"""The deployed Programs and their figures, from launches after the choice, as rows of `deployed` and `splits`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from overlayccl_core.evidence.benched import Benched, model_choice, regret
from overlayccl_core.evidence.predictions import Prediction
from overlayccl_core.evidence.standing import Headline, passes_of
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.deployed import Part, Use

Row = dict[str, Any]


def ratio_columns(name: str, ratio: Ratio | None) -> Row:
    """Return the three columns of a ratio; null without one."""
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
    held: Row | None,
) -> Row:
    """Return the row of `deployed`, without the price of the pair.

    Args:
        confirmed, verdicts: Rows of this Case and direction.
        instead: The arm in place of the chosen one (`standing.placed`).
        held: The file's row there (`choices.deployed_rows`).
    """
    passes = passes_of(confirmed)
    mine, others = passes.file, passes.gains
    one = next(b for b in shortlisted if b.candidate == choice["candidate"])
    first = model_choice(place, shortlisted, predicted)
    best = min(others, key=lambda arm: others[arm].value, default=None)
    price = predicted.get((*place, choice["program"]))
    decided = verdicts.filter((pl.col("gate") == Gate.CHOICE) & (pl.col("outcome") == Outcome.PASS))
    return {
        "problem": problem_of(place[0]),
        **{
            name: choice[name] for name in ("case", "direction", "candidate", "arm", "numerics", "trained_in")
        },
        "way": in_words(choice),
        "use": _use(held),
        "instead": instead,
        "in_file": held["candidate"] if held else None,
        "predicted_us": price.us if price else None,
        "measured_us": mine.estimate.value if mine else None,
        **ratio_columns("speedup", others.get(ArmName.DEVELOPER)),
        **ratio_columns("gain", others[best] if best else None),
        **ratio_columns("of_module", passes.of_module),
        "best_other": best,
        "launches": len(mine.launches) if mine else 0,
        "regret": regret(one, shortlisted),
        "model_regret": regret(first, shortlisted) if first else None,
        "reason": decided["message"][0],
        "disturbed": mine.mostly_disturbed if mine else None,
        "fingerprint": mine.fingerprint if mine else None,
    }


def in_words(choice: Row) -> str:
    """Return the column `way` for a row of `choice`."""
    name: str = choice["candidate"]
    return Recipe.from_json(json.loads(choice["recipe"])).words if is_found(name) else name


def _use(held: Row | None) -> Use:
    """Return the column `use`, from the file's row."""
    if held is None:
        return Use.FRAMEWORK
    return Use.FOUND if is_found(held["candidate"]) else Use.KNOWN


def add_pairs(rows: Sequence[Row]) -> None:
    """Fill in predicted_pair_us. An unlisted direction exchanges nothing and costs nothing."""
    for mine in rows:
        us = [other["predicted_us"] for other in rows if other["case"] == mine["case"]]
        mine["predicted_pair_us"] = None if None in us else sum(us)


# --------------------------------------------------------------------------------------------------------- models
def split_rows(model: str, of: Headline, fingerprint: str) -> list[Row]:
    """Return the rows of `splits` of a model."""
    parts = ((Part.DEPLOYED, of.chosen), (Part.INSTEAD, of.instead), (Part.RIVAL, of.rival))
    rows = []
    for one in of.splits:
        part = next((name for name, it in parts if one is it), Part.BESIDE)
        speedup = of.chosen.seen.speedup_over(one.seen) if of.chosen and one is not of.chosen else None
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
                **ratio_columns("deployed_speedup", speedup),
                "launches": len(one.seen.steps_us),
                "disturbed": one.seen.mostly_disturbed,
                "fingerprint": fingerprint,
            }
        )
    return rows
