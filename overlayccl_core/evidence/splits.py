"""The arms of a model at every count of microbatches: the choice of a count, and the arms timed beside it.

A model has a batch; M is the count of microbatches in a step. Every arm at every M computes the same batch, so
their steps compare.
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
SAME_MEMORY = 1.01  # ratio that still counts as equal: a step's count has tensors of a few bytes, too
RIVALS = 2  # confirmed: launches after the choice may swap two close ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An arm at a count of microbatches, with its measurements."""

    microbatches: int
    arm: str
    ran_as: str  # the plainest arm with the same Programs; the arm itself if it needs a search
    needs_search: bool  # a search found one of its Programs
    seen: ArmEvidence

    @property
    def us(self) -> float:
        """Median step time over launches."""
        return float(np.median([np.median(us) for us in self.seen.steps_us.values()]))

    @property
    def peak_bytes(self) -> float:
        """Peak bytes of tensors on the fullest rank; infinite if unknown."""
        held = self.seen.peak_memory_bytes
        return inf if held is None else held

    def is_program_of(self, other: "Split") -> bool:
        """Return whether both run the same Programs at the same count of microbatches."""
        return (self.microbatches, self.ran_as) == (other.microbatches, other.ran_as)


def splits_of(
    model: str, steps: pl.DataFrame, stamps: pl.DataFrame, plain: pl.DataFrame | None = None
) -> list[Split]:
    """Return the trained arms of a model, fewer microbatches first, without failed arms.

    Args:
        plain: Stamps with the Programs of all arms; default: `stamps`.
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
    """Return arm -> (candidate, program) at the sites of a model, sorted by site name."""
    here = stamps.filter((pl.col("model") == model) & (pl.col("microbatches") == microbatches))
    by_arm = here.sort("site").group_by("arm", maintain_order=True)
    return {str(arm): tuple(rows.select("candidate", "program").iter_rows()) for (arm,), rows in by_arm}


# ------------------------------------------------------------------------------------------------- what is chosen
def chosen_as(model: str, choices: Iterable[pl.DataFrame]) -> dict[int, str]:
    """Return count of microbatches -> the arm chosen for its Cases, the least plain of several.

    Args:
        choices: The table `choice` of every Problem.
    """
    arms: dict[int, set[str]] = {}
    for choice in choices:
        for row in choice.iter_rows(named=True):
            for name, microbatches in of_labels(row["trained_in"]):
                if name == model:
                    arms.setdefault(microbatches, set()).add(row["arm"])
    return {microbatches: least_plain(names) for microbatches, names in sorted(arms.items())}


def chosen_split(chosen: Mapping[int, str], trained: Sequence[Split]) -> Split | None:
    """Return the chosen arm at the smallest count of microbatches that no other beat in training, beyond noise.

    chosen: from `chosen_as`. None if nothing chosen was trained.
    """
    seen = {(one.microbatches, one.arm): one for one in trained}
    contending = [seen[at] for at in sorted(chosen.items()) if at in seen]
    best = next(iter(contending), None)
    for one in contending:
        assert best is not None  # the first of them
        speedup = one.seen.speedup_over(best.seen)
        if speedup is not None and speedup.beyond_noise:
            best = one
    return best


def rivals_of(deployed: Split, splits: Iterable[Split]) -> list[Split]:
    """Return other arms that need no search, with other Programs and at most the deployed arm's memory (+1%)."""
    return [
        one
        for one in splits
        if one.arm != ArmName.DEPLOYED
        and not one.needs_search
        and not one.is_program_of(deployed)
        and one.peak_bytes <= deployed.peak_bytes * SAME_MEMORY
    ]


def frontier(ways: Iterable[Way], *, held: Callable[[Way], float], us: Callable[[Way], float]) -> list[Way]:
    """Return the Pareto frontier of memory and time, least memory first: less time needs more memory."""
    best: list[Way] = []
    for one in sorted(ways, key=lambda one: (held(one), us(one))):
        if not best or us(one) < us(best[-1]):
            best.append(one)
    return best


# ---------------------------------------------------------------------------------------------- what is confirmed
def arms_to_confirm(chosen: Mapping[int, str], trained: Sequence[Split]) -> dict[int, list[str]]:
    """Return count of microbatches -> the arms to time again beside the deployed one.

    At the deployed count: all Programs without a search, and the chosen arm. Over all counts, possible objections:
    the fastest rivals, the fastest at every memory, the framework's fastest arm, the developer's fastest, and the
    fastest of each count. If training chose nothing: every arm without a search.
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
            *frontier(fastest, held=lambda one: one.peak_bytes, us=lambda one: one.us),
        ]
        wanted += [one for one in fastest if is_framework(one.arm)][:1]
        wanted += [one for one in fastest if one.arm == ArmName.DEVELOPER][:1]
        wanted += {one.microbatches: one for one in reversed(fastest)}.values()
    counts = sorted({one.microbatches for one in trained} | set(chosen))
    return {m: list(dict.fromkeys(one.arm for one in wanted if one.microbatches == m)) for m in counts}


def _pace_beside(deployed: Split) -> Callable[[Split], float]:
    """Return a step's time over the deployed arm's, in shared launches: some arms ran in the first ones only."""

    def times(one: Split) -> float:
        ratio = deployed.seen.speedup_over(one.seen)
        return inf if ratio is None else ratio.value

    return times
