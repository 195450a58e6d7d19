"""Drop arms from later launches: those slower than the fastest arm, beyond noise or by FAR.

The first LAUNCHES launches run all arms. Arms slower than the fastest at the same count of microbatches are then
left behind, and the time of later launches goes to close arms. The developer's stays unless it is slower beyond
noise: all others are compared with it. Ratios are of the launches that both arms ran in. What is left behind is not
chosen (`evidence/contest.py`). Only arms that may be chosen make others leave: not the framework's own, nor arms
with wrong gradients or matrix products.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import ratio_over_launches

LAUNCHES = 2
FAR = 1.2  # times the fastest arm's step, in each of the first launches
# Relative error of a gradient, beyond any reordering of sums. The training gate judges for itself.
FAR_OFF = 1e-4
Steps = dict[int, Sequence[float]]  # launch -> us
Row = Mapping[str, Any]


def left_behind(rows: Iterable[Row]) -> set[tuple[int, str]]:
    """Return (count of microbatches, arm) of the arms to drop. rows: Of `steps`, of the launches with all arms."""
    timed: dict[int, dict[str, Steps]] = {}
    inspected: dict[int, dict[str, Row]] = {}
    for row in rows:
        if row["purpose"] == Purpose.TIMED:
            arms = timed.setdefault(row["microbatches"], {})
            arms.setdefault(row["arm"], {})[row["launch"]] = row["steps_us"]
            if row["gradient_rel_error"] is not None:
                inspected.setdefault(row["microbatches"], {})[row["arm"]] = row
    return {
        (count, arm)
        for count, arms in timed.items()
        for arm in _slower(arms, _sound(inspected.get(count, {})))
    }


def leaving(
    number: int, well: Collection[tuple[int, str]], first: Callable[[], Iterable[Row]]
) -> set[tuple[int, str]]:
    """Return the arms to drop from launch `number`.

    Args:
        well: The arms without a failure; only they are dropped or make others leave.
        first: Returns the rows of the launches with all arms.
    """
    if number < LAUNCHES:
        return set()
    return left_behind(row for row in first() if (row["microbatches"], row["arm"]) in well)


def _sound(inspected: Mapping[str, Row]) -> set[str]:
    """Our arms with the developer's matrix products and right gradients in the inspected step."""
    if (developer := inspected.get(ArmName.DEVELOPER)) is None:
        return set()
    return {
        arm
        for arm, row in inspected.items()
        if not is_framework(arm)
        and row["matmul_digest"] == developer["matmul_digest"]
        and row["gradient_rel_error"] <= FAR_OFF
    }


def _slower(arms: Mapping[str, Steps], sound: Container[str]) -> Iterable[str]:
    """The arms slower than the fastest sound one, beyond noise or by FAR."""
    ours = {arm: steps for arm, steps in arms.items() if arm in sound}
    if not ours:
        return ()
    fastest = min(ours.values(), key=lambda steps: np.median([np.median(us) for us in steps.values()]))
    ratios = {arm: ratio_over_launches(steps, fastest) for arm, steps in arms.items()}
    return [
        arm
        for arm, ratio in ratios.items()
        if ratio is not None
        and (ratio.beyond_noise or (arm != ArmName.DEVELOPER and _is_far(arms[arm], fastest)))
    ]


def _is_far(steps: Steps, fastest: Steps) -> bool:
    """Whether steps are FAR times as long in every launch."""
    return all(
        np.median(us) >= FAR * np.median(fastest[launch]) for launch, us in steps.items() if launch in fastest
    )
