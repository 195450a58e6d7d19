"""Training steps by arm in the launches by which was chosen; and arms as people read them. Reads tables only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.measuring.arms import FSDP, ArmName, ddp_bucket, only_problem
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio, paired_ratio

Launches = Mapping[tuple[int, int], tuple[float, ...]]
"""(seed, launch) -> us of the steps, in order."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm's timed steps at one count of microbatches. quiet: the same without communication."""

    name: str
    timed: Launches
    quiet: Launches
    collectives: int | None
    peak_activation_bytes: int | None

    @cached_property
    def us(self) -> Ratio | None:
        """A step: median over launches of the launch's median, with its interval."""
        sides: list[tuple[Sequence[float], Sequence[float]]] = [
            (us, [1.0] * len(us)) for us in self.timed.values() if us
        ]
        return paired_ratio(sides) if sides else None

    @cached_property
    def quiet_us(self) -> float | None:
        """us of the step without communication: the median of the first launch, which has no interval."""
        first = min((key for key, us in self.quiet.items() if us), default=None)
        return None if first is None else float(np.median(self.quiet[first]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All arms of a model that were trained at one count of microbatches, in their order."""

    model: str
    microbatches: int
    arms: Mapping[str, Arm]
    launches: int

    @property
    def name(self) -> str:
        """`nano, 8 microbatches`."""
        return f"{self.model}, {self.microbatches} microbatch{'es' if self.microbatches != 1 else ''}"


def runs_of(steps: pl.DataFrame) -> list[Run]:
    """The runs of one model's table `steps`, fewer microbatches first."""
    runs = []
    for microbatches in sorted(steps["microbatches"].unique()):
        rows = steps.filter((pl.col("microbatches") == microbatches) & (pl.col("purpose") != Purpose.LOSS))
        timed = rows.filter(pl.col("purpose") == Purpose.TIMED)
        if timed.is_empty():
            continue
        runs.append(
            Run(
                model=rows["model"][0],
                microbatches=microbatches,
                arms={name: _arm(name, rows) for name in timed["arm"].unique(maintain_order=True)},
                launches=timed.unique(["seed", "launch"]).height,
            )
        )
    return runs


def arm_label(name: str) -> str:
    """An arm's name for people."""
    if (bucket := ddp_bucket(name)) is not None:
        return f"torch DDP, {bucket} MiB"
    if name == FSDP:
        return "torch FSDP"
    if name == ArmName.DEPLOYED:
        return "the deployed file"
    if (problem := only_problem(name)) is not None:
        return f"only {problem}"
    return name.replace("_", " ")


def arm_meaning(name: str) -> str:
    """What an arm is, for somebody who has not read anything else."""
    known: dict[str, str] = {
        ArmName.DEVELOPER: "what practitioners write: one library call per tensor, where it is needed",
        ArmName.SINGLE_GRAPH: "the same calls, not merged, issued so that independent ones are under way together",
        ArmName.HAND_BUNDLED: "the obvious change by hand: calls that can be one are one",
        ArmName.BEST_SEED: "of all strategies that people wrote, the fastest in the bench",
        ArmName.FINALIST_1: "the fastest in the bench of all proven candidates",
        ArmName.FINALIST_2: "the second fastest in the bench",
        ArmName.FINALIST_OVERLAP: "the fastest with calls to hide behind computation, which a bench has none of",
        ArmName.DEPLOYED: "the file in deploy/ itself, at this count of microbatches",
        FSDP: "torch's own data parallelism with parameters in shards (fully_shard)",
    }
    if ddp_bucket(name) is not None:
        return "torch's own data parallelism with this bucket size"
    if (problem := only_problem(name)) is not None:
        return f"finalist 1 where {problem} occurs, developer's calls elsewhere"
    return known.get(name, "")


def _arm(name: str, rows: pl.DataFrame) -> Arm:
    mine = rows.filter(pl.col("arm") == name)
    timed = mine.filter(pl.col("purpose") == Purpose.TIMED)
    return Arm(
        name=name,
        timed=_launches(timed.iter_rows(named=True)),
        quiet=_launches(mine.filter(pl.col("purpose") == Purpose.QUIET).iter_rows(named=True)),
        collectives=_first_known(timed["collectives"]),
        peak_activation_bytes=_first_known(timed["peak_activation_bytes"]),
    )


def _first_known(values: pl.Series) -> int | None:
    """Arms are inspected in one launch."""
    return next(iter(values.drop_nulls()), None)


def _launches(rows: Iterable[Mapping[str, Any]]) -> Launches:
    return {(row["seed"], row["launch"]): tuple(row["steps_us"]) for row in rows}
