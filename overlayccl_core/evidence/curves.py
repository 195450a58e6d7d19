"""Losses of long courses: step by step, and whether each arm trains like the developer's.

All arms begin with the same parameters and read the same data, so their losses differ by rounding alone. In the
first steps a fixed number bounds the difference. Each later step amplifies it; the bound is then measured: the
spread of the developer's own last losses over seeds. The training gate judges both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.configuration.models import of_label
from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.evidence.trained import Ran, arms_by_model, failed_arms, ran_by, trial_of
from overlayccl_core.evidence.verdict_rows import said_columns
from overlayccl_core.gates.training import ArmEvidence, ArmOnTrial, Losses, judge_losses
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.program.numerics import NumericsClass

SEED = 0  # of all arms; the developer's has others, too
END = 10  # a course ends with its last tenth
FRAMEWORK = "the framework averages gradients in buffers of its own"
Row = Mapping[str, Any]


def loss_rows(steps: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of `losses`: of every course, step and arm."""
    developers = {
        (row["model"], row["microbatches"], row["seed"]): _means(row["losses"])
        for row in steps.iter_rows(named=True)
        if row["arm"] == ArmName.DEVELOPER
    }
    for row in steps.iter_rows(named=True):
        theirs = developers.get((row["model"], row["microbatches"], row["seed"]), ())
        head = {name: row[name] for name in ("model", "microbatches", "arm", "seed", "fingerprint")}
        for step, loss in enumerate(_means(row["losses"])):
            difference = loss - theirs[step] if step < len(theirs) else None
            yield {**head, "step": step, "loss": loss, "developer_difference": difference}


def curve_rows(steps: pl.DataFrame, stamps: pl.DataFrame, programs: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows of `curves`: one for every trained arm, plainest first.

    Args:
        programs: Rows of `finalists`, and of the deployed Programs.
    """
    places: dict[tuple[str, str], dict[str, Row]] = {}
    for row in programs:
        places.setdefault(place_of(row), {})[row["arm"]] = row
    ran = ran_by(places)
    seen = arms_by_model(steps, stamps)
    failed = failed_arms(steps, stamps)
    fingerprint = steps["fingerprint"][0]
    rows = []
    for model, arm in _trained(steps):
        name, microbatches = of_label(model)
        head = {"model": name, "microbatches": microbatches, "arm": arm, "fingerprint": fingerprint}
        if verdict := failed.get((model, arm)):
            rows.append({**head, **_NO_LOSSES, **said_columns(verdict)})
            continue
        arms = {one: replace(it, losses=_ended(it)) for one, it in seen[model].items()}
        rows.append({**head, **_figures(arms[arm], steps, head), **_judged(model, arm, arms, stamps, ran)})
    return rows


_NO_LOSSES = {"numerics": None, "steps": 0, "first_loss": None, "last_loss": None, "validation_loss": None}


def _trained(steps: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield (`nano m8`, arm), each once."""
    told = steps.select("model", "microbatches", "arm").unique(maintain_order=True)
    return ((f"{model} m{microbatches}", arm) for model, microbatches, arm in told.iter_rows())


def _figures(arm: ArmEvidence, steps: pl.DataFrame, head: Row) -> dict[str, Any]:
    course = steps.filter(
        pl.col("model") == head["model"],
        pl.col("microbatches") == head["microbatches"],
        pl.col("arm") == head["arm"],
        pl.col("seed") == SEED,
    )
    first, *_, last = _means(arm.losses[SEED])
    return {
        "steps": len(arm.losses[SEED]) - 1,
        "first_loss": first,
        "last_loss": last,
        "validation_loss": course["validation_loss"][0],
    }


def _judged(
    model: str,
    arm: str,
    arms: Mapping[str, ArmEvidence],
    stamps: pl.DataFrame,
    ran: Callable[[str], Iterable[Ran]],
) -> dict[str, Any]:
    trial: ArmOnTrial | Verdict
    if is_framework(arm) and ArmName.DEVELOPER in arms:
        trial = ArmOnTrial(
            arm=arms[arm],
            developer=arms[ArmName.DEVELOPER],
            numerics=NumericsClass.REORDERED,
            explained=FRAMEWORK,
        )
    else:
        trial = trial_of(model, arm, arms, stamps, ran)
    if isinstance(trial, Verdict):
        return {"numerics": None, **said_columns(trial)}
    verdict = judge_losses(trial)
    return {"numerics": trial.numerics.value, **said_columns(verdict)}


def _ended(arm: ArmEvidence) -> dict[int, Losses]:
    """Return seed -> losses, plus the mean of their end as the last one: a single batch says little."""
    return {
        seed: (*losses, tuple(np.mean(losses[-max(len(losses) // END, 1) :], 0)))
        for seed, losses in arm.losses.items()
    }


def _means(losses: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return each step's mean over the ranks with a loss."""
    return tuple(float(np.mean(one)) for one in losses)
