"""The fit: a known theta comes back, intervals cover, and what cannot be told apart has no value."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.costmodel.features import Feature, Features, Increment, Term, features
from overlayccl_core.costmodel.fit import Fit, FitSettings, Observation, fit
from overlayccl_core.costmodel.price import price, price_features
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import Probe, ProbeRole
from overlayccl_core.probes.shapes import shape_probes
from overlayccl_core.probes.structured import structured_probes

FOUR = Deployment(
    name="four",
    backend="torchdist",
    library="gloo",
    ranks=4,
    ranks_per_node=4,
    tiers=(Tier(name="node", ranks=4),),
    memory_budget_bytes=2**29,
)
PROBES = (
    structured_probes(FOUR) + shape_probes(FOUR) + mixed_probes(FOUR, seed=1, count=60, role=ProbeRole.MIXED)
)
FEATURES = [features(p.program) for p in PROBES]
SETTINGS = FitSettings(bootstraps=60)
QUICK = FitSettings(bootstraps=2)  # where no interval counts


def a_theta() -> dict[Feature, float]:
    """Costs of the size that CPU ranks have: milliseconds a collective, microseconds a local operation."""
    rng = np.random.default_rng(7)
    theta = {}
    for column in sorted({c for f in FEATURES for c in f}):
        if column.increment is not Increment.NONE:
            continue
        if column.unit == "us":
            busy = column.term in (Term.COLLECTIVES, Term.AMORTIZATION)
            theta[column] = rng.uniform(300, 5000) if busy else rng.uniform(3, 40)
        else:
            theta[column] = rng.uniform(0.5, 5) * (1e-3 if column.unit == "us/B" else 1e-2)
    return theta


TRUE = a_theta()


def timed(counted: Features, theta: Mapping[Feature, float]) -> float:
    return sum(theta.get(column, 0.0) * amount for column, amount in counted.items())


def observations(
    theta: Mapping[Feature, float], *, noise: float = 0.0, probes: list[Probe] = PROBES, seed: int = 0
) -> list[Observation]:
    rng = np.random.default_rng(seed)
    observed = []
    for probe in probes:
        f = features(probe.program)
        us = timed(f, theta) * float(np.exp(noise * rng.normal()))
        observed.append(Observation(features=f, time_us=us, judges=probe.role.judges))
    return observed


@pytest.fixture(scope="module")
def noisy() -> Fit:
    return fit(observations(TRUE, noise=0.08), SETTINGS, fingerprint="host-1")


def test_a_known_theta_comes_back() -> None:
    theta = fit(observations(TRUE, noise=1e-3), replace(QUICK, ridge=1e-6)).theta
    assert {c.status for c in theta.coefficients} == {FitStatus.FITTED}
    for column, value in TRUE.items():
        assert theta.values[column] == pytest.approx(value, rel=0.1), column.name


def test_prices_are_right_to_the_noise_on_programs_outside_the_fit(noisy: Fit) -> None:
    heldout = mixed_probes(FOUR, seed=2, count=60, role=ProbeRole.HELD_OUT)
    errors = []
    for probe in heldout:
        us = price(probe.program, noisy.theta).us
        assert us is not None
        errors.append(abs(us / timed(features(probe.program), TRUE) - 1))
    assert np.median(errors) < 0.03


def test_intervals_of_theta_cover() -> None:
    inside = []
    for seed in range(3):
        theta = fit(observations(TRUE, noise=0.1, seed=seed), SETTINGS).theta
        inside += [c.low <= TRUE[c.column] <= c.high for c in theta.coefficients if c.value is not None]
    assert np.mean(inside) > 0.85


def test_prediction_intervals_cover_four_of_five() -> None:
    theta = fit(observations(TRUE, noise=0.15), QUICK).theta
    rng = np.random.default_rng(3)
    inside = []
    for probe in mixed_probes(FOUR, seed=3, count=150, role=ProbeRole.HELD_OUT):
        priced = price(probe.program, theta)
        measured = timed(features(probe.program), TRUE) * np.exp(0.15 * rng.normal())
        assert priced.low_us is not None and priced.high_us is not None
        inside.append(priced.low_us <= measured <= priced.high_us)
    assert 0.7 < np.mean(inside) < 0.9


def test_a_column_that_costs_nothing_is_zero() -> None:
    column = next(c for c in TRUE if c.name == "graph.next.count")
    theta = fit(observations({**TRUE, column: 0.0}, noise=0.05), SETTINGS).theta
    coefficient = next(c for c in theta.coefficients if c.column == column)
    assert coefficient.value is not None and coefficient.value < 5
    assert coefficient.low == 0


def test_columns_that_always_come_together_are_unidentified() -> None:
    twin = Feature(name="twin.count", term=Term.COPIES, unit="us")
    wait = next(c for c in TRUE if c.name == "wait.count")
    doubled = [
        replace(o, features={**o.features, twin: 2 * o.features[wait]} if wait in o.features else o.features)
        for o in observations(TRUE, noise=0.02)
    ]
    theta = fit(doubled, QUICK).theta
    status = {c.column.name: c.status for c in theta.coefficients}
    assert status["twin.count"] is status["wait.count"] is FitStatus.UNIDENTIFIED
    assert sum(s is FitStatus.UNIDENTIFIED for s in status.values()) == 2
    assert price_features({wait: 1.0}, theta).us is None
    assert price_features({wait: 1.0}, theta).missing == ("wait.count",)


def test_a_column_that_no_probe_has_leaves_a_program_without_a_price(noisy: Fit) -> None:
    other = Feature(name="all_reduce.network224.alone.count", term=Term.COLLECTIVES, unit="us")
    priced = price_features({other: 1.0}, noisy.theta)
    assert (priced.us, priced.missing) == (None, (other.name,))


def test_an_increment_is_kept_only_if_it_helps(noisy: Fit) -> None:
    assert noisy.increments == ()
    extra = {c: 3000.0 for f in FEATURES for c in f if c.increment is Increment.SECOND}
    kept = fit(observations({**TRUE, **extra}, noise=0.02), QUICK)
    assert Increment.SECOND in kept.increments
    assert any(c.column.increment is Increment.SECOND for c in kept.theta.coefficients)


def test_permutes_that_cost_twice_as_much_beside_each_other_are_found() -> None:
    """Beside other kinds they cost what they cost elsewhere: a price of `together` alone is wrong by half."""
    theta = {c: (0.01 if c.unit == "us/B" else 1.0) * v for c, v in TRUE.items()}  # starting is what costs
    permute = next(v for c, v in theta.items() if c.name == "collective_permute.node.alone.count")
    for c in theta:
        if c.name.startswith("collective_permute.node.together.count"):
            theta[c] = 0.5 * permute
    theta |= {c: 1.5 * permute for f in FEATURES for c in f if c.increment is Increment.FURTHER}
    found = fit(observations(theta, noise=0.05), QUICK)
    assert Increment.FURTHER in found.increments
    for probe in (p for p in PROBES if "-shifts-" in p.name):
        us = price(probe.program, found.theta).us
        assert us == pytest.approx(timed(features(probe.program), theta), rel=0.1), probe.name


def test_calls_of_many_bytes_that_cost_more_a_byte_are_found() -> None:
    dear = {c: 3e-3 for f in FEATURES for c in f if c.increment is Increment.LARGE}
    found = fit(observations({**TRUE, **dear}, noise=0.05), QUICK)
    assert Increment.LARGE in found.increments


def test_the_terms_of_a_price_add_up(noisy: Fit) -> None:
    priced = price(PROBES[-1].program, noisy.theta)
    assert priced.us == pytest.approx(sum(priced.terms.values()))


def test_theta_survives_its_table(noisy: Fit) -> None:
    kept = noisy.theta
    again = Theta.from_rows(kept.to_rows(), residual_low=kept.residual_low, residual_high=kept.residual_high)
    assert again == kept


def test_every_optional_column_of_several_nodes_keeps_its_set_in_a_table() -> None:
    tiers = (Tier(name="node", ranks=2), Tier(name="network", ranks=4))
    two = FOUR.changed(ranks_per_node=2, tiers=tiers)
    probes = shape_probes(two) + mixed_probes(two, seed=1, count=30, role=ProbeRole.MIXED)
    columns = {c for p in probes for c in features(p.program)}
    assert {c.increment for c in columns} == set(Increment)
    known = {"value": 1.0, "low": 1.0, "high": 1.0, "status": FitStatus.FITTED, "programs": 1}
    theta = Theta(tuple(Coefficient(column=c, **known) for c in sorted(columns)), 1.0, 1.0)
    assert Theta.from_rows(theta.to_rows(), residual_low=1.0, residual_high=1.0) == theta


def test_bad_observations_are_refused() -> None:
    with pytest.raises(ValueError, match=r"6 mixed .*got 0"):
        fit(observations(TRUE, probes=structured_probes(FOUR)), SETTINGS)
    with pytest.raises(ValueError, match="times must be positive"):
        fit([replace(o, time_us=0.0) for o in observations(TRUE)], SETTINGS)
    with pytest.raises(ValueError, match="2 bootstraps"):
        FitSettings(bootstraps=1)


def test_a_coefficient_has_a_value_unless_it_is_unidentified() -> None:
    column = Feature(name="wait.count", term=Term.COLLECTIVES, unit="us")
    with pytest.raises(ValueError, match="has no value"):
        Coefficient(column=column, value=None, low=None, high=None, status=FitStatus.FITTED, programs=3)
