"""The same Programs alone, beside a matmul and in the step: the time of an arm in each, and where orders differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.measuring.measurements import measurements
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.scopes import TimedScope

Row = dict[str, Any]
STEP = ("model", "microbatches")
SITE = ("case", "direction", "program")


def programs_of_steps(stamps: pl.DataFrame, finalists: pl.DataFrame) -> pl.DataFrame:
    """Return case, direction, program, candidate and program_json of all Programs that ran in steps, each once."""
    ran = stamps.filter(pl.col("arm") == pl.col("ran_as")).select(SITE).unique(maintain_order=True)
    known = finalists.select(*SITE, "candidate", "program_json").unique(
        SITE, keep="first", maintain_order=True
    )
    return ran.join(known, on=SITE, maintain_order="left")


def arms(steps: pl.DataFrame, stamps: pl.DataFrame, scopes: pl.DataFrame) -> list[Row]:
    """Return the rows of `scoped_arms`. An arm with a Program without a time is left out.

    A Program's time is that of all exchanges of its Case once, and so is its part of a step.
    """
    us = {
        (scope, one): timed.estimate.value
        for scope in TimedScope
        for one, timed in measurements(scopes.filter(scope=scope).iter_rows(named=True)).items()
    }
    samples = _samples(steps)
    found = []
    for (model, microbatches, arm), sites in stamps.filter(pl.col("arm") == pl.col("ran_as")).group_by(
        *STEP, "arm", maintain_order=True
    ):
        key, programs = (model, microbatches, arm), sites["program"].to_list()
        if key in samples and all((scope, one) in us for scope in TimedScope for one in programs):
            sums = {f"{scope}_us": sum(us[scope, one] for one in programs) for scope in TimedScope}
            found.append(
                {
                    **dict(zip((*STEP, "arm"), key, strict=True)),
                    **sums,
                    "step_us": float(np.median(samples[key])),
                }
            )
    return found


def orders(arms: pl.DataFrame, steps: pl.DataFrame) -> Iterator[Row]:
    """Yield the rows of `scope_orders`, from the table `scoped_arms`."""
    samples = _samples(steps)
    for (model, microbatches), here in arms.group_by(*STEP, maintain_order=True):
        if here.height < 2:
            continue
        for scope in TimedScope:
            scored = [
                Scored(predicted_us=us, samples_us=samples[model, microbatches, arm])
                for arm, us in here.select("arm", f"{scope}_us").iter_rows()
            ]
            compared = fidelity(scored)
            right = compared.pair_accuracy
            yield {
                "model": model,
                "microbatches": microbatches,
                "scope": scope,
                "arms": compared.n,
                "spearman": compared.spearman,
                "pairs": compared.pairs,
                "otherwise": None if right is None else 1 - right,
                "fastest": _least(here, f"{scope}_us"),
                "fastest_in_step": _least(here, "step_us"),
            }


def _least(arms: pl.DataFrame, column: str) -> str:
    return str(arms.sort(column)["arm"][0])


def _samples(steps: pl.DataFrame) -> Mapping[tuple[Any, ...], Sequence[float]]:
    """Return (model, microbatches, arm) -> the times of its timed steps, of all launches; at least two."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in steps.filter(purpose=Purpose.TIMED).iter_rows(named=True):
        found.setdefault((row["model"], row["microbatches"], row["arm"]), []).extend(row["steps_us"])
    return {key: us for key, us in found.items() if len(us) > 1}
