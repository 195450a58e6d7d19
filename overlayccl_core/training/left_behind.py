"""Which arms of a model need no more launches: those that are slower beyond noise than the fastest beside them.

The first LAUNCHES launches have all arms. What is slower there than the fastest at the same count of microbatches,
by the ratio that the choice is made by, is left behind: another launch would say the same, and its seconds go to
the arms that are close. Its ratios to all others are of the launches that it ran in. Only what may be chosen makes
others leave: not the framework's own, and no arm with other gradients or other matrix products than it should have.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from overlayccl_core.measuring.arms import ArmName, is_framework
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.measuring.statistics import ratio_over_launches

LAUNCHES = 2
FAR_OFF = (
    1e-4  # of a gradient, relative: no other order of sums is so far off. The training gate judges for itself
)
Steps = dict[int, Sequence[float]]  # launch -> us
Row = Mapping[str, Any]


def left_behind(rows: Iterable[Row]) -> set[tuple[int, str]]:
    """(count of microbatches, arm) of those that leave. rows: of `steps`, of the launches that all arms ran in."""
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
    """Those that a launch is without. well: all that have not failed, which alone make others leave; first: rows of
    the launches that all ran in.
    """
    if number < LAUNCHES:
        return set()
    return left_behind(row for row in first() if (row["microbatches"], row["arm"]) in well)


def _sound(inspected: Mapping[str, Row]) -> set[str]:
    """The arms that do what the developer's does, as far as one step shows it."""
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
    """Of the arms at one count of microbatches."""
    ours = {arm: steps for arm, steps in arms.items() if arm in sound}
    if not ours:
        return ()
    fastest = ours[min(ours, key=lambda arm: _median_us(ours[arm]))]
    ratios = {arm: ratio_over_launches(steps, fastest) for arm, steps in arms.items()}
    return [arm for arm, ratio in ratios.items() if ratio is not None and ratio.beyond_noise]


def _median_us(steps: Steps) -> float:
    return float(np.median([np.median(us) for us in steps.values()]))
