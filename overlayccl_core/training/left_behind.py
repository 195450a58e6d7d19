"""Drop arms from later launches: those slower than the fastest arm, beyond noise or by far.

After the first launch arms FARTHER behind the fastest at the same count of microbatches leave, after LAUNCHES those
FAR behind or slower beyond noise. The time of later launches goes to close arms. The developer's stays unless it is
slower beyond noise: all others are compared with it. Ratios are of the launches that both arms ran in. What is left
behind is not chosen (`evidence/contest.py`). Only arms that may be chosen make others leave: not the framework's
own, nor arms with wrong gradients or matrix products.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import ratio_over_launches

LAUNCHES = 2
FARTHER = 1.5  # times the fastest arm's step, in the first launch
FAR = 1.2  # in each of the first launches
# Relative error of a gradient, beyond any reordering of sums. The training gate judges for itself.
FAR_OFF = 1e-4
Steps = dict[int, Sequence[float]]  # launch -> us
Row = Mapping[str, Any]


def left_behind(rows: Iterable[Row]) -> set[tuple[int, str]]:
    """Return (count of microbatches, arm) of the arms to drop. rows: Of `steps`, of one or the first launches."""
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
    number: int, well: Collection[tuple[int, str]], before: Callable[[int], Iterable[Row]]
) -> set[tuple[int, str]]:
    """Return the arms to drop from launch `number`.

    Args:
        well: The arms without a failure; only they are dropped or make others leave.
        before: Returns the rows of the launches before one.
    """
    left = set()
    for launches in range(1, min(number, LAUNCHES) + 1):  # whoever left comes back only if others fail
        left |= left_behind(row for row in before(launches) if (row["microbatches"], row["arm"]) in well)
    return left


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
    """The arms slower than the fastest sound one: beyond noise or by FAR, of one launch by FARTHER."""
    launches = {launch for steps in arms.values() for launch in steps}
    ours = [steps for arm, steps in arms.items() if arm in sound and max(launches) in steps]
    if not ours:
        return ()
    fastest = min(ours, key=lambda steps: np.median([np.median(us) for us in steps.values()]))
    others = {arm: steps for arm, steps in arms.items() if arm != ArmName.DEVELOPER}
    if len(launches) == 1:
        return [arm for arm, steps in others.items() if _is_behind(steps, fastest, FARTHER)]
    ratios = {arm: ratio_over_launches(steps, fastest) for arm, steps in arms.items()}
    noted = [arm for arm, ratio in ratios.items() if ratio is not None and ratio.beyond_noise]
    return [*noted, *(arm for arm, steps in others.items() if _is_behind(steps, fastest, FAR))]


def _is_behind(steps: Steps, fastest: Steps, times: float) -> bool:
    """Whether steps are so many times as long in every launch of both."""
    both = steps.keys() & fastest.keys()
    return bool(both) and all(
        np.median(steps[launch]) >= times * np.median(fastest[launch]) for launch in both
    )
