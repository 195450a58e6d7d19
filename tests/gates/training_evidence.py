"""Evidence of training by hand: an arm that does the developer's step in half the time, and how it can go wrong."""

from dataclasses import replace
from typing import Any

import numpy as np

from overlayccl_core.gates.training import ArmEvidence, ArmOnTrial, Losses
from overlayccl_core.program.numerics import NumericsClass

LAUNCHES = range(5)
SEEDS = range(4)
STEPS = 40
MATMULS = frozenset({(96, "0123456789abcdef")})


def curve(seed: int, *, rate: float = 0.05, change: float = 0.0) -> Losses:
    """Losses of a run on two ranks: they fall from 5.5 to about 3, by a few per cent apart between seeds.

    change: relative difference that grows with the steps, as rounding does.
    """
    at = np.arange(STEPS)
    losses = 3.0 + 0.02 * seed + 2.5 * np.exp(-rate * at)
    of_a_rank = (losses * (1 + change * at / STEPS)).tolist()
    return tuple(zip(of_a_rank, of_a_rank, strict=True))


def steps(us: float, *, noise: float = 0.01) -> dict[int, tuple[float, ...]]:
    """Steps of five launches; what disturbs a launch disturbs all of its arms."""
    by_launch = {}
    for launch in LAUNCHES:
        random = np.random.default_rng([launch, int(us)])
        by_launch[launch] = tuple((us * (1 + 0.1 * launch) * np.exp(noise * random.normal(size=8))).tolist())
    return by_launch


def arm(name: str, us: float, **curve_changes: Any) -> ArmEvidence:
    """An arm that did everything right, `curve_changes` apart."""
    return ArmEvidence(
        arm=name,
        steps_us=steps(us),
        losses={seed: curve(seed, **curve_changes) for seed in SEEDS},
        timed_losses={launch: curve(launch, **curve_changes)[:10] for launch in LAUNCHES},
        gradient_rel_error=3e-7,
        matmuls=MATMULS,
    )


def trial(numerics: NumericsClass = NumericsClass.REORDERED, **changes: Any) -> ArmOnTrial:
    """finalist_1 beside developer, half as fast; `changes` to finalist_1."""
    mine = arm("finalist_1", 1000.0, change=1e-6)
    return ArmOnTrial(arm=replace(mine, **changes), developer=arm("developer", 2000.0), numerics=numerics)
