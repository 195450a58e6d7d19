"""Tuners: which way of a call to measure next, and which is the best so far.

A tuner is a generator: after each measuring it yields the number of the way that it would name now. All but the
coordinate descent name the way with the least geometric mean of its samples, so they differ in what they measure.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from statistics import fmean
from typing import Any

from overlayccl_core.process_group.descent import Descent, TunedArm
from overlayccl_core.tables.tune import TunerName

Measure = Callable[..., list[float]]
"""Numbers of ways -> a sample of each, of one round."""
Tuner = Callable[[Sequence[TunedArm], Measure, int], Iterator[int]]
"""(ways, measure, seed) -> the way that it would name, after each measuring."""

MOST = 9
"""Samples of a way in one trial of Hyperband; its brackets begin with 1, 3 and 9."""
REDUCTION = 3


class Means:
    """Geometric means of samples, by way."""

    def __init__(self, ways: int) -> None:
        self._sums, self._counts, self._means = [0.0] * ways, [0] * ways, [math.inf] * ways

    def add(self, way: int, us: float) -> None:
        """Add a sample."""
        self._sums[way] += math.log(us)
        self._counts[way] += 1
        self._means[way] = self._sums[way] / self._counts[way]

    @property
    def best(self) -> int:
        """The way with the least mean; of equal ones the first."""
        return self._means.index(min(self._means))


def grid(arms: Sequence[TunedArm], measure: Measure, seed: int) -> Iterator[int]:
    """Measure one after the other in their order, again and again."""
    means = Means(len(arms))
    for way in cycle(range(len(arms))):
        means.add(way, *measure(way))
        yield means.best


def randomly(arms: Sequence[TunedArm], measure: Measure, seed: int) -> Iterator[int]:
    """Measure any, each as likely as another."""
    means, drawn = Means(len(arms)), random.Random(seed)
    while True:
        way = drawn.randrange(len(arms))
        means.add(way, *measure(way))
        yield means.best


def descent(arms: Sequence[TunedArm], measure: Measure, seed: int) -> Iterator[int]:
    """Measure in pairs as ranks do while they train, with the same search; it ends when all is tried."""
    search = Descent(arms, arms[0])
    number = {arm: way for way, arm in enumerate(arms)}
    while search.trial is not None:
        best, trial = measure(number[search.best], number[search.trial])
        search.feed([(best, trial)])
        yield number[search.best]


def hyperband(arms: Sequence[TunedArm], measure: Measure, seed: int) -> Iterator[int]:
    """Measure what Optuna's tree-structured Parzen estimator proposes, for as long as its Hyperband lets it.

    A trial's samples are the resource: family and parts are drawn, and after 1, 3, 9 samples the trial goes on if
    its mean is among the best third of its bracket (Li et al., JMLR 2018; BOHB, Falkner et al., ICML 2018).

    Raises:
        ValueError: Optuna is not installed.
    """
    optuna = _optuna()
    ladders: dict[str, list[int]] = {}
    for way, arm in enumerate(arms):
        ladders.setdefault(arm.family, []).append(way)
    study = optuna.create_study(
        study_name=str(seed),  # by which trials come into brackets
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=MOST, reduction_factor=REDUCTION),
    )
    means = Means(len(arms))
    while True:
        trial = study.ask()
        ladder = ladders[trial.suggest_categorical("family", list(ladders))]
        way = ladder[trial.suggest_int("parts", 0, len(ladder) - 1)]
        logs: list[float] = []
        while True:
            [us] = measure(way)
            means.add(way, us)
            yield means.best
            logs.append(math.log(us))
            trial.report(fmean(logs), len(logs))
            if len(logs) == MOST:
                study.tell(trial, fmean(logs))
                break
            if trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break


MEASURING: Mapping[TunerName, Tuner] = {
    TunerName.HYPERBAND: hyperband,
    TunerName.DESCENT: descent,
    TunerName.RANDOM: randomly,
    TunerName.GRID: grid,
}


def _optuna() -> Any:
    try:
        import optuna  # nobody else waits for this import
    except ModuleNotFoundError:
        raise ValueError(
            "the tuner hyperband needs optuna, which this Python does not have: `make env` installs it, and so "
            "does pip install 'overlayccl[tpe]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
