"""A script in two modes: what its ranks wrote of their steps, how many times as fast it is, and its losses."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.measuring.statistics import Ratio, paired_ratio
from overlayccl_core.tables.plain import rebuilt

PLAIN, TUNED = "plain", "tuned"
LEFT_OUT = 3
"""First steps of a launch that no ratio counts: they make connections and buffers."""


@dataclass(frozen=True, kw_only=True)
class Launched:
    """What a rank wrote: the ends of its steps in ns, their losses, and calls made by each Case.

    Attributes:
        ends: Ends of the training steps on the rank's own clock, in ns.
        losses: What the backward passes of each step began at.
        made: Case -> how many calls were made by it.
        numerics: Case -> class of its numerics.
    """

    ends: list[int]
    losses: list[list[float]]
    made: dict[str, int]
    numerics: dict[str, str]


def launched(folder: Path, mode: str, code: int) -> dict[int, Launched]:
    """Return rank -> what it wrote.

    Raises:
        ValueError: No rank did; with the mode and the exit code of the command.
    """
    empty: dict[str, Any] = {"made": {}, "numerics": {}}
    found = {
        int(file.stem.removeprefix("rank-")): rebuilt(
            Launched, json.dumps(empty | json.loads(file.read_bytes()))
        )
        for file in sorted(folder.glob("rank-*.json"))
    }
    if not found:
        mend = "let it make more, or ask for fewer by --steps N" if code == 0 else "its last lines are above"
        raise ValueError(f"the {mode} script ended with {code} before so many training steps: {mend}")
    return found


def rows(pair: int, mode: str, ranks: Mapping[int, Launched]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `script_steps` of one launch."""
    for rank, one in ranks.items():
        lengths = [None, *(np.diff(one.ends) / 1e3)]
        for step, (length, losses) in enumerate(zip(lengths, one.losses, strict=True)):
            yield {
                **{"pair": pair, "mode": mode, "rank": rank, "step": step},
                "step_us": length,
                "losses": [loss for loss in losses if not np.isnan(loss)],
            }


def step_us(steps: pl.DataFrame, mode: str) -> dict[int, list[float]]:
    """Return pair -> the lengths of its steps that count, each the mean over ranks, out of `script_steps`."""
    counted = steps.filter(pl.col("mode") == mode, pl.col("step") >= LEFT_OUT)
    means = counted.group_by("pair", "step").agg(pl.mean("step_us")).sort("pair", "step")
    return {int(pair): of["step_us"].to_list() for (pair,), of in means.group_by("pair", maintain_order=True)}


def gain(steps: pl.DataFrame) -> Ratio:
    """Return how many times as fast the tuned script is, over the pairs of launches."""
    plain, tuned = step_us(steps, PLAIN), step_us(steps, TUNED)
    return paired_ratio([(plain[pair], tuned[pair]) for pair in sorted(tuned)])


def half_width(ratio: Ratio) -> float:
    """Return half of a ratio's 95% interval over its value; infinite without one."""
    if ratio.low is None or ratio.high is None:
        return float("inf")
    return (ratio.high - ratio.low) / 2 / ratio.value


def losses_apart(steps: pl.DataFrame, one: tuple[int, str], other: tuple[int, str]) -> float | None:
    """Return the largest relative difference of two launches' losses; None where neither has one.

    Args:
        steps: `script_steps`.
        one: Pair and mode of a launch; `other`: of another.
    """
    first, second = (
        steps.filter(pl.col("pair") == pair, pl.col("mode") == mode).sort("rank", "step")["losses"]
        for pair, mode in (one, other)
    )
    if [len(of) for of in first] != [len(of) for of in second]:
        return float("inf")
    a, b = (np.concatenate([np.asarray(of, np.float64) for of in side]) for side in (first, second))
    if not len(a):
        return None
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    return float(np.max(np.abs(a - b)[differ] / np.maximum(np.abs(a), np.abs(b))[differ], initial=0.0))
