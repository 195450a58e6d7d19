"""Recorded calls with planted times."""

from collections.abc import Mapping

import numpy as np

from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.process_group.parts import PLAIN
from overlayccl_core.tuning.recorded import RecordedCall

PARTS = {1: 1.0, 2: 0.8, 4: 0.9}  # parts -> what they make of a time
FAMILIES = {"native": 1000.0, "ring": 4000.0, "copies": 500.0, "doubled": 1500.0}


def arms(
    families: Mapping[str, float] = FAMILIES, parts: Mapping[int, float] = PARTS
) -> tuple[TunedArm, ...]:
    named = [(family, part) for family in families for part in parts]
    return tuple(
        TunedArm(f"{family}_in_{part}" if number else PLAIN, family, part)
        for number, (family, part) in enumerate(named)
    )


def call(
    families: Mapping[str, float] = FAMILIES,
    parts: Mapping[int, float] = PARTS,
    *,
    noise: float = 0.02,
    rounds: int = 40,
    disturbed: bool = False,
    seed: int = 0,
) -> RecordedCall:
    """Times are those of the family times those of the parts."""
    us = np.array([one * part for one in families.values() for part in parts.values()])
    drawn = np.random.default_rng(seed).lognormal(0, noise, (len(us), rounds))
    return RecordedCall(
        arms=arms(families, parts),
        samples_us=us[:, None] * drawn,
        repeats=np.full(len(us), 10),
        disturbed=disturbed,
    )


BEST = 2 * len(PARTS) + 1  # copies, in two parts
