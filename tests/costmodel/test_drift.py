"""Factors of theta's groups, from probes that were timed again."""

import numpy as np
import pytest

from overlayccl_core.costmodel.drift import LOCAL, MIXED, Drift, Retimed, kind_of, kinds_of
from overlayccl_core.costmodel.features import Feature, Features, Term
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta

COUNT, BYTES, COPIES, WAIT = (
    Feature(name=name, term=term, unit="us")
    for name, term in (
        ("all_reduce.network4.alone.count", Term.COLLECTIVES),
        ("all_reduce.network4.alone.bytes", Term.COLLECTIVES),
        ("copy.bytes", Term.COPIES),
        ("wait.count", Term.COLLECTIVES),
    )
)
US = {COUNT: 100.0, BYTES: 1e-3, COPIES: 1e-4, WAIT: 5.0}
SIZES = (1e3, 1e5, 1e6)


def theta() -> Theta:
    known = {"low": 0.0, "high": 1e9, "status": FitStatus.FITTED, "programs": 9}
    return Theta(tuple(Coefficient(column=c, value=us, **known) for c, us in US.items()), 0.8, 1.2)  # type: ignore[arg-type]


def call(size: float) -> Features:
    return {COUNT: 1.0, BYTES: size, WAIT: 1.0}


def again(factors: dict[Feature, float], misfit: float = 1.0, noise: float = 0.0) -> list[Retimed]:
    """Calls of all sizes and a copy; misfit: old times over theta's prices."""
    random = np.random.default_rng(0)
    found = []
    for counted in (*map(call, SIZES), {COPIES: 1e6}):
        old, new = (
            misfit * sum(amount * US[c] * of.get(c, 1.0) for c, amount in counted.items())
            for of in ({}, factors)
        )
        found.append(Retimed(features=counted, old_us=old, new_us=new * np.exp(noise * random.normal())))
    return found


def test_a_slower_link_shows_in_bytes_and_not_in_counts() -> None:
    drift = Drift(theta(), again({BYTES: 4.0}))
    assert drift.factors["all_reduce.network4.bytes"] == pytest.approx(4.0, rel=0.02)
    assert drift.factors["all_reduce.network4.count"] == pytest.approx(1.0, abs=0.1)
    assert drift.factors[LOCAL] == pytest.approx(1.0)
    assert drift.of(call(1e7)) == pytest.approx(4.0, rel=0.03) and drift.of(call(1.0)) < 1.1


def test_what_theta_never_got_right_is_no_drift() -> None:
    factors = Drift(theta(), again({}, misfit=2.0)).factors
    assert list(factors.values()) == pytest.approx([1.0] * len(factors))


def test_what_no_probe_was_of_keeps_its_price() -> None:
    drift = Drift(theta(), again({BYTES: 4.0})[-1:])
    assert drift.of(call(1e7)) == pytest.approx(1.0)


def test_the_ratio_of_two_prices_has_an_interval_that_noise_widens() -> None:
    quiet, noisy = (
        Drift(theta(), again({BYTES: 4.0}, noise=s)).of_ratio(call(1e6), {COPIES: 1e6}) for s in (0.01, 0.3)
    )
    assert quiet.value == pytest.approx(3.75, rel=0.05) and quiet.beyond_noise
    assert quiet.low and quiet.high and noisy.low and noisy.high
    assert quiet.low <= quiet.value <= quiet.high and noisy.high / noisy.low > quiet.high / quiet.low


def test_a_program_is_of_its_only_kind_of_call() -> None:
    other = Feature(name="all_to_all.node4.together.count", term=Term.AMORTIZATION, unit="us")
    assert kind_of(call(1.0)) == "all_reduce.network4"
    assert kind_of({COPIES: 1.0}) == LOCAL and kind_of({**call(1.0), other: 1.0}) == MIXED
    assert kinds_of({other: 1.0, WAIT: 1.0}) == {"all_to_all.node4"}
