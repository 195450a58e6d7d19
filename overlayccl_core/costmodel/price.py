"""Price of a Program: its features times theta, by term, with an interval."""

from collections.abc import Mapping
from dataclasses import dataclass

from overlayccl_core.costmodel.features import Features, Term, features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Predicted time of one call on the slowest rank.

    Attributes:
        low_us, high_us: The 10% to 90% range, from residuals of Programs outside the fit.
        missing: Columns the probes of this deployment did not tell apart; with any, there is no price.
    """

    us: float | None
    low_us: float | None
    high_us: float | None
    terms: Mapping[Term, float]  # the parts of `us`; a term without any fitted column is absent
    missing: tuple[str, ...] = ()


def price(program: Program, theta: Theta) -> Price:
    """Return the price of a Program on the deployment of theta."""
    return price_features(features(program), theta)


def price_features(counted: Features, theta: Theta) -> Price:
    """Return the price of counted features."""
    values = theta.values
    terms = {column.term: 0.0 for column in values}
    for column, amount in counted.items():
        if column in values:
            terms[column.term] += amount * values[column]
    if missing := theta.missing(counted):
        return Price(us=None, low_us=None, high_us=None, terms=terms, missing=missing)
    us = sum(terms.values())
    return Price(us=us, low_us=us * theta.residual_low, high_us=us * theta.residual_high, terms=terms)
