"""Libraries for tests of the selftest, as what two ranks would observe of them: no ranks are started."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.trials import Observed, Trial, observed
from overlayccl_core.launching.failures import Failure, LaunchError
from tests.on_ranks import meaning

Library = Callable[[Path, Sequence[Trial]], list[Observed]]  # what is observed in a launch's folder


def right(trials: Sequence[Trial]) -> list[Observed]:
    """What a library that computes as NumPy does would give."""
    return [observed(whole(trial), trial.output_tiles) for trial in trials]


def whole(trial: Trial) -> dict[Any, NDArray[np.float64]]:
    """All values that a trial should give, not only what ranks tell of them."""
    return dict(meaning(trial.job.program, unfolded(trial)))


def unfolded(trial: Trial) -> Mapping[Any, NDArray[np.float64]]:
    """The values of a trial as the ranks make them."""
    tiles = trial.input_tiles
    return {p: np.stack(list(map(tiles[p].spread, x))) if p in tiles else x for p, x in trial.inputs.items()}


def right_but(other: Callable[[Trial], Observed | None]) -> Library:
    """Right, where `other` observes nothing else."""
    return lambda _, trials: [other(trial) or one for trial, one in zip(trials, right(trials), strict=True)]


def died(how: str, trial: Trial) -> LaunchError:
    return LaunchError(f"rank 1 of 2 died ({how})", kind=Failure.CRASHED, ranks=(1,), job=trial.job.key)
