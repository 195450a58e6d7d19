"""A made-up clock: what a Program takes follows from what it counts, and a little noise that is always the same."""

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.costmodel.features import features
from overlayccl_core.program.program import Program

US_OF_UNIT = {"us": 40.0, "us/B": 1e-2, "us/run": 5e-3, "us/multiplication": 1e-4}
NOISE = 0.02


def microseconds(program: Program) -> float:
    """Of one call."""
    return sum(amount * US_OF_UNIT[column.unit] for column, amount in features(program).items())


def stamps(program: Program, visits: int, ranks: int, *, seed: int) -> NDArray[np.int64]:
    """int64[visits, ranks, 2]: start and end (ns) of every visit; rank 0 is the slowest."""
    random = np.random.default_rng([int(program.digest[:8], 16), seed])
    each = microseconds(program) * 1e3 * np.exp(NOISE * random.standard_normal(visits))
    start = 1 + np.arange(visits, dtype=np.int64)[:, None] + np.zeros(ranks, np.int64)
    end = start + np.maximum(each[:, None] - np.arange(ranks), 1).astype(np.int64)
    return np.stack([start, end], axis=-1)
