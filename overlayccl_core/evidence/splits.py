"""The arms of a model at every count of microbatches: which count is chosen, and what stands beside it.

A model has a batch; M is the count of microbatches into which a step splits it. Every arm at every M computes the
same batch, so their steps compare.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np
import polars as pl

from overlayccl_core.configuration.models import label, of_labels
from overlayccl_core.evidence.trained import arms_by_model
from overlayccl_core.gates.training import ArmEvidence
from overlayccl_core.measuring.arms import ArmName, is_framework, least_plain, plainness
from overlayccl_core.tables.candidate_columns import is_found

Way = TypeVar("Way")
SAME_MEMORY = 1.01  # times as much is as much: a step's count has tensors of a few bytes, too
RIVALS = 2  # that are confirmed: the launches after the choice may turn two around that are close


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An arm at a count of microbatches, and what was seen of it.

    ran_as: where it needs no search, the plainest arm with its Programs. needs_search: a search found one of them.
    """

    microbatches: int
    arm: str
    ran_as: str
    needs_search: bool
    seen: ArmEvidence

    @property
    def us(self) -> float:
        """Median over launches."""
        return float(np.median([np.median(us) for us in self.seen.steps_us.values()]))

    @property
    def held(self) -> float:
        """The most bytes of tensors at a time on the rank that holds most; infinite where nobody knows."""
        held = self.seen.peak_memory_bytes
        return inf if held is None else held

    def is_program_of(self, other: "Split") -> bool:
        """Whether both run the same Programs at the same count of microbatches."""
        return (self.microbatches, self.ran_as) == (other.microbatches, other.ran_as)


def splits_of(
    model: str, steps: pl.DataFrame, stamps: pl.DataFrame, plain: pl.DataFrame | None = None
) -> list[Split]:
    """What was trained of a model, fewer microbatches first; without arms that failed.

    plain: the stamps by which the Programs of all arms are known; without them `stamps`.
    """
    by_model = arms_by_model(steps, stamps)
    splits = []
    for microbatches in steps.filter(pl.col("model") == model)["microbatches"].unique().sort():
        ran, known = (
            _programs(model, microbatches, told) for told in (stamps, stamps if plain is None else plain)
        )
        for arm, seen in by_model.get(label(model, microbatches), {}).items():
            mine = ran.get(arm, ())
            searched = any(is_found(candidate) for candidate, _ in mine)
            same = [name for name in known if known[name] == mine and name != ArmName.DEPLOYED]
            ran_as = arm if searched else min(same, key=plainness, default=arm)
            splits.append(
                Split(microbatches=microbatches, arm=arm, ran_as=ran_as, needs_search=searched, seen=seen)
            )
    return splits


def _programs(model: str, microbatches: int, stamps: pl.DataFrame) -> dict[str, tuple[tuple[str, str], ...]]:
    """Arm -> (candidate, program) at the sites of a model, in the order of their names."""
    here = stamps.filter((pl.col("model") == model) & (pl.col("microbatches") == microbatches))
    by_arm = here.sort("site").group_by("arm", maintain_order=True)
    return {str(arm): tuple(rows.select("candidate", "program").iter_rows()) for (arm,), rows in by_arm}


# ------------------------------------------------------------------------------------------------- what is chosen
def chosen_as(model: str, choices: Iterable[pl.DataFrame]) -> dict[int, str]:
    """Count of microbatches -> the arm as which its Cases were chosen. choices: the table of every Problem.

    Where they were chosen as several arms, the least plain counts.
    """
    arms: dict[int, set[str]] = {}
    for choice in choices:
        for row in choice.iter_rows(named=True):
            for name, microbatches in of_labels(row["trained_in"]):
                if name == model:
                    arms.setdefault(microbatches, set()).add(row["arm"])
    return {microbatches: least_plain(names) for microbatches, names in sorted(arms.items())}


def chosen_split(chosen: Mapping[int, str], trained: Sequence[Split]) -> Split | None:
    """What is deployed at the least count of microbatches that no other was faster than beyond noise, in training.

    chosen: of `chosen_as`. None where none of it was trained.
    """
    seen = {(one.microbatches, one.arm): one for one in trained}
    contending = [seen[at] for at in sorted(chosen.items()) if at in seen]
    best = next(iter(contending), None)
    for one in contending:
        assert best is not None  # the first of them
        gain = one.seen.speedup_over(best.seen)
        if gain is not None and gain.beyond_noise:
            best = one
    return best


def rivals_of(deployed: Split, splits: Iterable[Split]) -> list[Split]:
    """What needs no search, takes the same memory (within 1%) or less and is not what is deployed."""
    return [
        one
        for one in splits
        if one.arm != ArmName.DEPLOYED
        and not one.needs_search
        and not one.is_program_of(deployed)
        and one.held <= deployed.held * SAME_MEMORY
    ]


def frontier(ways: Iterable[Way], *, held: Callable[[Way], float], us: Callable[[Way], float]) -> list[Way]:
    """Each that is faster than all that take as little memory, the least memory first."""
    best: list[Way] = []
    for one in sorted(ways, key=lambda one: (held(one), us(one))):
        if not best or us(one) < us(best[-1]):
            best.append(one)
    return best


# ---------------------------------------------------------------------------------------------- what is confirmed
def beside(chosen: Mapping[int, str], trained: Sequence[Split]) -> dict[int, list[str]]:
    """Count of microbatches -> the arms that are timed again beside what is deployed there.

    At the count that is deployed all Programs that need no search, and the arm as which it was chosen. Of all
    counts what could be said against it: the fastest rivals, the fastest at every memory, the framework's fastest,
    developer's where they alone are fastest, the fastest of each count. Where training chose nothing, all that
    needs no search.
    """
    plain = [one for one in trained if not one.needs_search]
    deployed = chosen_split(chosen, trained)
    wanted = plain
    if deployed is not None:
        wanted = [
            one for one in plain if one.microbatches == deployed.microbatches and not is_framework(one.arm)
        ]
        fastest = sorted((one for one in plain if one.arm == one.ran_as), key=_pace_beside(deployed))
        wanted += [
            deployed,
            *rivals_of(deployed, fastest)[:RIVALS],
            *frontier(fastest, held=lambda one: one.held, us=lambda one: one.us),
        ]
        wanted += [one for one in fastest if is_framework(one.arm)][:1]
        wanted += [one for one in fastest if one.arm == ArmName.DEVELOPER][:1]
        wanted += {one.microbatches: one for one in reversed(fastest)}.values()
    counts = sorted({one.microbatches for one in trained} | set(chosen))
    return {m: list(dict.fromkeys(one.arm for one in wanted if one.microbatches == m)) for m in counts}


def _pace_beside(deployed: Split) -> Callable[[Split], float]:
    """How many times as long a step takes, in the launches of both: some arms ran in the first launches only."""

    def times(one: Split) -> float:
        ratio = deployed.seen.speedup_over(one.seen)
        return inf if ratio is None else ratio.value

    return times
