"""Training steps by arm: times, paired ratios, losses, and which arm was chosen. Reads tables only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.gates.training import faster_frameworks, gained
from overlayccl_core.measuring.arms import BASELINES, FINALISTS, ArmName, framework_bucket, is_framework
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import Ratio, common_launches, paired_ratio, ratio_over_launches

Launches = Mapping[tuple[int, int], tuple[float, ...]]
"""(seed, launch) -> us of the steps, in order."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm's timed steps at one count of microbatches. quiet: the same without communication.

    cold: the steps before those, which are in no other figure.
    programs: digest at each (site, direction), as the modules tell; empty where none told.
    """

    name: str
    timed: Launches
    quiet: Launches
    collectives: int | None
    peak_activation_bytes: int | None
    cold: Launches = field(default_factory=dict)
    programs: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def rival(self) -> bool:
        """False for what computes something else: it is shown beside the comparison."""
        return self.name != ArmName.BIG_BATCH

    @cached_property
    def us(self) -> Ratio | None:
        """A step: median over launches of the launch's median, with its interval over launches and steps."""
        return over_launches(self.timed)

    @cached_property
    def cold_us(self) -> float | None:
        """us of the first step after a start of the ranks: the median over launches."""
        first = [us[0] for us in self.cold.values() if us]
        return float(np.median(first)) if first else None

    @cached_property
    def quiet_us(self) -> float | None:
        """us of the step without communication: the median of the first launch, which has no interval."""
        first = min((key for key, us in self.quiet.items() if us), default=None)
        return None if first is None else float(np.median(self.quiet[first]))

    def speedup_over(self, other: "Arm") -> Ratio | None:
        """`other`'s step over this one's, paired step by step within launches; None without a common launch."""
        return ratio_over_launches(other.timed, self.timed)

    def slower_launches(self, other: "Arm") -> tuple[int, int]:
        """In how many of the common launches this one's median step was longer than `other`'s, and of how many."""
        common = common_launches(other.timed, self.timed)
        return sum(bool(np.median(mine) > np.median(theirs)) for theirs, mine in common), len(common)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All arms of a model at one count of microbatches. deployed: the arms that `choice` names at its Cases."""

    model: str
    microbatches: int
    arms: Mapping[str, Arm]
    deployed: tuple[str, ...]
    launches: int
    disturbed: int

    @property
    def name(self) -> str:
        """`nano, 8 microbatches`."""
        return f"{self.model}, {self.microbatches} microbatch{'es' if self.microbatches != 1 else ''}"

    @property
    def mostly_disturbed(self) -> bool:
        """Whether others took too much of the CPU in most launches."""
        return 2 * self.disturbed > self.launches

    @property
    def chosen(self) -> str | None:
        """The arm that is deployed; None where nothing was chosen, or not the same arm at all Cases."""
        return self.deployed[0] if len(self.deployed) == 1 else None

    @property
    def rivals(self) -> tuple[Arm, ...]:
        """The arms of the comparison, the developer's first, then the slower before the faster."""
        timed = [arm for arm in self.arms.values() if arm.rival and arm.us is not None]
        return tuple(sorted(timed, key=lambda arm: (arm.name != ArmName.DEVELOPER, -_value(arm.us))))

    @property
    def best_other(self) -> Arm | None:
        """The arm over which the chosen one gains least: no finalist, nor what runs the chosen one's Programs.

        In the order of the training gate; the fastest one where nothing was chosen.
        """
        mine = {self.chosen, self.twin_of(self.chosen)}
        others = [a for a in self.rivals if a.name not in mine and a.name not in FINALISTS]
        chosen = self.arms.get(self.chosen) if self.chosen else None
        if chosen is None:
            return min(others, key=lambda arm: _value(arm.us), default=None)
        beside = [(gained(ratio), arm) for arm in others if (ratio := chosen.speedup_over(arm))]
        return min(beside, key=lambda one: one[0], default=(None, None))[1]

    def faster_frameworks(self, name: str) -> tuple[tuple[str, Ratio], ...]:
        """(arm, its step over the named arm's) of the framework's own that are faster than it beyond noise."""
        mine = self.arms.get(name)
        return faster_frameworks((a.name, mine.speedup_over(a)) for a in self.rivals) if mine else ()

    def twin_of(self, name: str | None) -> str | None:
        """The plainest arm that people write whose Programs are this finalist's at all sites; None without one."""
        if name not in FINALISTS or name not in self.arms:
            return None
        programs = self.arms[name].programs
        same = (arm for arm in BASELINES if arm in self.arms and self.arms[arm].programs == programs)
        return next(same, None) if programs else None


def runs_of(
    steps: pl.DataFrame, choice: pl.DataFrame | None, stamps: pl.DataFrame | None = None
) -> list[Run]:
    """The runs of one model's table `steps`, fewer microbatches first.

    choice: rows of all Problems; stamps: of the same model.
    """
    runs = []
    for microbatches in sorted(steps["microbatches"].unique()):
        rows = steps.filter((pl.col("microbatches") == microbatches) & (pl.col("purpose") != Purpose.LOSS))
        if rows.is_empty():
            continue
        timed = rows.filter(pl.col("purpose") == Purpose.TIMED)
        once = timed.unique(["seed", "launch"])
        runs.append(
            Run(
                model=rows["model"][0],
                microbatches=microbatches,
                arms={
                    name: _arm(name, rows, _programs(stamps, microbatches, name))
                    for name in timed["arm"].unique(maintain_order=True)
                },
                deployed=_deployed(rows["model"][0], microbatches, choice),
                launches=once.height,
                disturbed=int(timed.filter("disturbed").unique(["seed", "launch"]).height),
            )
        )
    return runs


def over_launches(launches: Launches) -> Ratio | None:
    """Median over launches of the median step in us, with its interval over launches and steps."""
    sides: list[tuple[Sequence[float], Sequence[float]]] = [
        (us, [1.0] * len(us)) for us in launches.values() if us
    ]
    return paired_ratio(sides) if sides else None


def arm_label(name: str) -> str:
    """An arm's name for people."""
    if (bucket := framework_bucket(name)) is not None:
        return f"torch DDP, {bucket} MiB"
    return name.replace("_", " ")


def arm_meaning(name: str) -> str:
    """What an arm is, for somebody who has not read anything else."""
    known: dict[str, str] = {
        ArmName.DEVELOPER: "what practitioners write: one library call per tensor, where it is needed",
        ArmName.SINGLE_GRAPH: "the same calls, not merged, issued so that independent ones are under way together",
        ArmName.HAND_BUNDLED: "the obvious change by hand: calls that can be one are one",
        ArmName.BIG_BATCH: "all microbatches computed as one batch: other matrix products, so no rival",
        ArmName.FINALIST_1: "the fastest in the bench of all proven candidates",
        ArmName.FINALIST_2: "the second fastest in the bench",
    }
    if is_framework(name):
        return "torch's own data parallelism with this bucket size"
    return known.get(name, "")


def _arm(name: str, rows: pl.DataFrame, programs: Mapping[tuple[str, str], str]) -> Arm:
    mine = rows.filter(pl.col("arm") == name)
    timed = mine.filter(pl.col("purpose") == Purpose.TIMED)
    return Arm(
        name=name,
        timed=_launches(timed.iter_rows(named=True)),
        quiet=_launches(mine.filter(pl.col("purpose") == Purpose.QUIET).iter_rows(named=True)),
        cold=_launches(timed.iter_rows(named=True), "cold_us"),
        collectives=_first_known(timed["collectives"]),
        peak_activation_bytes=_first_known(timed["peak_activation_bytes"]),
        programs=programs,
    )


def _programs(stamps: pl.DataFrame | None, microbatches: int, arm: str) -> dict[tuple[str, str], str]:
    if stamps is None:
        return {}
    mine = stamps.filter((pl.col("microbatches") == microbatches) & (pl.col("arm") == arm))
    return {(row["site"], row["direction"]): row["program"] for row in mine.iter_rows(named=True)}


def _first_known(values: pl.Series) -> int | None:
    """Arms are inspected in one launch."""
    return next(iter(values.drop_nulls()), None)


def _launches(rows: Iterable[Mapping[str, Any]], column: str = "steps_us") -> Launches:
    return {(row["seed"], row["launch"]): tuple(row[column]) for row in rows}


def _deployed(model: str, microbatches: int, choice: pl.DataFrame | None) -> tuple[str, ...]:
    """The arms that `choice` names at the Cases that were trained in this run."""
    if choice is None:
        return ()
    here = pl.col("trained_in").str.split(", ").list.contains(f"{model} m{microbatches}")
    return tuple(sorted(set(choice.filter(here)["arm"])))


def _value(us: Ratio | None) -> float:
    return us.value if us is not None else float("inf")
