"""What each term of the model is good for: the error without it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from overlayccl_core.costmodel.features import Column, Term
from overlayccl_core.costmodel.fit import FitSettings, Observation, fit


def errors_without_terms(
    observations: Sequence[Observation], settings: FitSettings
) -> dict[Term | None, float]:
    """Cross-validated median relative error of the whole model (None) and of the model without each term.

    Without amortization, collectives that start while others are outstanding cost what they cost alone.
    """
    found: dict[Term | None, float] = {None: _error(observations, settings)}
    for term in {c.term for o in observations for c in o.features}:
        found[term] = _error([_without(o, term) for o in observations], settings)
    return found


def _error(observations: Sequence[Observation], settings: FitSettings) -> float:
    measured_over_predicted = fit(observations, replace(settings, bootstraps=2)).residuals
    return float(np.median(np.abs(1 / measured_over_predicted - 1)))


def _without(observation: Observation, term: Term) -> Observation:
    kept: dict[Column, float] = {}
    for column, amount in observation.features.items():
        if column.term is not term:
            kept[column] = kept.get(column, 0.0) + amount
        elif term is Term.AMORTIZATION and ".together." in column.name:
            alone = replace(column, name=column.name.replace(".together.", ".alone."), term=Term.COLLECTIVES)
            kept[alone] = kept.get(alone, 0.0) + amount
    return replace(observation, features=kept)
