"""Arms of a model by M, from launches that choose nothing. Odd steps choose the best, even ones say its time."""

from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.evidence.confirmed import ratio_columns
from overlayccl_core.evidence.splits import Split, splits_of
from overlayccl_core.gates.training import ArmOnTrial, judge_step, passes
from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.measuring.statistics import paired_ratio
from overlayccl_core.program.numerics import NumericsClass

Row = dict[str, Any]


def wrong_splits(model: str, steps: pl.DataFrame, stamps: pl.DataFrame) -> dict[tuple[int, str], str]:
    """Return (M, arm) -> why its step is not the developer's: other matrix products, or wrong gradients.

    Gradients may be as far off as those of lossy ways: which arms have some is not known here. Of the framework's
    own arms they alone are judged: what multiplies there is theirs.
    """
    splits = splits_of(model, steps, stamps)
    developers = {one.microbatches: one.seen for one in splits if one.arm == ArmName.DEVELOPER}
    wrong = {}
    for one in splits:
        trial = ArmOnTrial(arm=one.seen, developer=developers[one.microbatches], numerics=NumericsClass.LOSSY)
        verdicts = judge_step(trial)[is_framework(one.arm) :]
        if not passes(verdicts):
            message = next(verdict.message for verdict in verdicts if not passes((verdict,)))
            wrong[one.microbatches, one.arm] = message
    return wrong


def swept_rows(model: str, steps: pl.DataFrame, stamps: pl.DataFrame, fingerprint: str) -> list[Row]:
    """Return the rows of `swept_splits` of a model, without `wrong_splits`.

    steps, stamps: tables `swept_steps` and `swept_stamps`.
    """
    wrong = wrong_splits(model, steps, stamps)
    even, odd = (
        [
            one
            for one in splits_of(model, _every_other(steps, first), stamps)
            if not {(one.microbatches, one.arm), (one.microbatches, one.ran_as)} & wrong.keys()
        ]
        for first in (0, 1)
    )
    by_odd = sorted(odd, key=lambda one: one.us)
    best, rival = (
        next(filter(wanted, by_odd), None) for wanted in (lambda one: True, lambda one: not one.needs_search)
    )
    seen = {(one.microbatches, one.arm): one for one in even}
    beside = seen.get((rival.microbatches, rival.ran_as)) if rival else None
    rows = []
    for one in even:
        us = paired_ratio([(us, np.ones(len(us))) for us in one.seen.steps_us.values()])
        references = {
            "gain": seen.get((one.microbatches, ArmName.DEVELOPER)),
            "over_whole": seen.get((1, ArmName.DEVELOPER)),
            "over_rival": beside,
        }
        rows.append(
            {
                "model": model,
                "microbatches": one.microbatches,
                "arm": one.arm,
                "ran_as": one.ran_as,
                "needs_search": one.needs_search,
                "best": _is(one, best),
                "rival": _is(one, rival),
                "step_us": us.value,
                "low_us": us.low,
                "high_us": us.high,
                "peak_memory_bytes": one.seen.peak_memory_bytes,
                "launches": len(one.seen.steps_us),
                "disturbed": one.seen.mostly_disturbed,
                "fingerprint": fingerprint,
            }
        )
        for name, other in references.items():
            same = other is None or one.is_program_of(other)
            rows[-1] |= ratio_columns(
                name, None if same or other is None else one.seen.speedup_over(other.seen)
            )
    return rows


def _every_other(steps: pl.DataFrame, first: int) -> pl.DataFrame:
    return steps.with_columns(pl.col("steps_us").list.gather_every(2, first))


def _is(one: Split, wanted: Split | None) -> bool:
    """Return whether it is the plainest arm of that Program at that M."""
    return wanted is not None and one.is_program_of(wanted) and one.arm == one.ran_as
