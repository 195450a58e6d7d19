"""Accuracy of prices against the bench: at a Case and direction, and over several."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlayccl_core.costmodel.features import Features
from overlayccl_core.costmodel.fidelity import Fidelity, Scored, fidelity
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.benched import Benched, model_choice, ranked
from overlayccl_core.evidence.predictions import Prediction
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceAccuracy:
    """The Programs that were both priced and measured at one Case and direction, and their figures."""

    scored: tuple[Scored, ...]
    figures: Fidelity


def at_place(
    place: Place, shortlisted: Sequence[Benched], predicted: Mapping[tuple[str, str, str], Prediction]
) -> PlaceAccuracy | None:
    """Return the accuracy over everything priced and measured with a plausible time; None if there is nothing.

    The first choice, and the best to compare it with, are not lossy.
    """
    scored = tuple(
        Scored(predicted_us=predicted[key].us, samples_us=one.timed.samples_us)
        for one in shortlisted
        if one.timed and one.verdict.passed and (key := (*place, one.program.digest)) in predicted
    )
    if not scored:
        return None
    first, best = model_choice(place, shortlisted, predicted), ranked(shortlisted, lossy=False)
    if first is None or first.timed is None or best[0].timed is None:
        return PlaceAccuracy(scored=scored, figures=fidelity(scored))
    compared = first.timed.samples_us, best[0].timed.samples_us
    return PlaceAccuracy(scored=scored, figures=fidelity(scored, first=compared))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCandidates:
    """What prices are worth on benched candidates; regrets: at each Case, of the choice that they would make."""

    figures: Fidelity
    regrets: tuple[float, ...]


def of_candidates(
    places: Mapping[Place, Sequence[Benched]], counted: Callable[[Program], Features], theta: Theta
) -> OfCandidates | None:
    """Judge the prices that a theta gives the candidates of some Cases; None: it prices none of them."""
    judged = []
    for place, shortlisted in places.items():
        predicted = {}
        for one in shortlisted:
            if one.timed is None:
                continue
            found = price_features(counted(one.program), theta)
            if found.us and found.low_us and found.high_us:
                key = (*place, one.program.digest)
                predicted[key] = Prediction(us=found.us, low_us=found.low_us, high_us=found.high_us)
        if accuracy := at_place(place, shortlisted, predicted):
            judged.append(accuracy)
    if not judged:
        return None
    regrets = (one.figures.top1_regret for one in judged)
    return OfCandidates(
        figures=over_places(judged), regrets=tuple(regret for regret in regrets if regret is not None)
    )


def judged_row(figures: Fidelity, regrets: Sequence[float]) -> dict[str, Any]:
    """Return the columns `CANDIDATES_JUDGED`, without fingerprint."""
    names = ("n", "median_rel_error", "repeat_rel_error", "pair_accuracy", "pairs", "top1_regret")
    mean = float(np.mean(regrets)) if regrets else None
    return {**{name: getattr(figures, name) for name in names}, "mean_regret": mean}


def over_places(places: Sequence[PlaceAccuracy]) -> Fidelity:
    """Return the figures of several Cases and directions: errors of all Programs, pairs within a place, the median
    regret. An order of Programs of unlike Cases says nothing, so it has no rank correlation."""
    each = [one.figures for one in places]
    scored = [one for place in places for one in place.scored]
    regrets = [one.top1_regret for one in each if one.top1_regret is not None]
    within = [one for one in each if one.pairs]
    pairs = [one.pairs for one in within]

    def share(name: str) -> float | None:
        return float(np.average([getattr(one, name) for one in within], weights=pairs)) if pairs else None

    whole = fidelity(scored)
    return Fidelity(
        n=whole.n,
        rounds=whole.rounds,
        spearman=None,
        kendall=None,
        median_rel_error=whole.median_rel_error,
        pair_accuracy=share("pair_accuracy"),
        repeat_pair_accuracy=share("repeat_pair_accuracy"),
        pairs=sum(pairs),
        top1_regret=float(np.median(regrets)) if regrets else None,
        top1_within_noise=None,
        repeat_spearman=None,
        repeat_rel_error=whole.repeat_rel_error,
        residual_low=whole.residual_low,
        residual_high=whole.residual_high,
    )
