"""Cost models of some probes: what they are judged by, and what equal cost means."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from overlayccl_core.configuration.sections import FitSection
from overlayccl_core.probes.asked.fit_quality import (
    ProbeSource,
    TimedProbe,
    arms,
    judged,
    part_of,
    theta_of,
    timed_of,
)
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.probes.structured import structured_probes
from tests.probes.asked.talk import LOCAL
from tests.stages.flow import timed

SECTION = FitSection(bootstraps=4, ridge=0.02, seed=0)


@cache
def known() -> Mapping[str, TimedProbe]:
    """A sweep and held-out Programs at made-up times, which follow a cost model."""
    probes = [
        *structured_probes(LOCAL),
        *mixed_probes(LOCAL, seed=1, count=40, role=ProbeRole.MIXED),
        *mixed_probes(LOCAL, seed=2, count=20, role=ProbeRole.HELD_OUT),
    ]
    return timed_of(timed(probes))


def of(role: ProbeRole) -> list[str]:
    return [program for program, one in known().items() if one.role is role]


def fixed() -> list[str]:
    return [program for program, one in known().items() if one.role is not ProbeRole.HELD_OUT]


def heldout() -> list[TimedProbe]:
    return [known()[program] for program in of(ProbeRole.HELD_OUT)]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    chosen = {"mixed": of(ProbeRole.MIXED), "few": of(ProbeRole.STRUCTURED)[:3], "none": []}
    return list(arms(known(), fixed(), chosen, SECTION, draws=3))


def row(
    rows: list[dict[str, Any]], arm: ProbeSource, search: str | None = None, draw: int = 0
) -> dict[str, Any]:
    [found] = [r for r in rows if (r["arm"], r["search"], r["draw"]) == (arm, search, draw)]
    return found


def test_there_is_a_row_for_the_sweep_each_chooser_and_each_draw(rows: list[dict[str, Any]]) -> None:
    keys = [(r["arm"], r["search"], r["draw"]) for r in rows]
    assert len(set(keys)) == len(keys) == 1 + 3 + 2 * 3
    assert not [
        key for key in keys if key[:2] == (ProbeSource.EQUAL_COST, "none")
    ]  # as many seconds as nothing


def test_the_whole_sweep_is_as_right_as_the_noise(rows: list[dict[str, Any]]) -> None:
    whole = row(rows, ProbeSource.FIXED)
    assert whole["probes"] == len(fixed()) and whole["heldout"] == whole["priced"] == 20
    assert whole["missing"] == 0 < whole["columns"]
    assert whole["median_log_error"] < 0.05 and whole["spearman"] > 0.98
    assert whole["median_log_error"] <= whole["p90_log_error"] < 0.2


def test_too_few_probes_give_no_cost_model_and_no_error(rows: list[dict[str, Any]]) -> None:
    for search in ("few", "none"):
        one = row(rows, ProbeSource.AGENT, search)
        assert one["priced"] == 0 and one["missing"] == one["columns"]
        assert one["median_log_error"] is one["p90_log_error"] is one["spearman"] is None


def test_parts_of_the_sweep_take_no_more_seconds_than_the_chooser_and_differ(
    rows: list[dict[str, Any]],
) -> None:
    seconds = row(rows, ProbeSource.AGENT, "mixed")["seconds"]
    parts = [row(rows, ProbeSource.EQUAL_COST, "mixed", draw) for draw in range(3)]
    assert all(0.9 * seconds < part["seconds"] <= seconds for part in parts)
    assert len({part["seconds"] for part in parts}) == 3
    drawn = [part_of(fixed(), known(), seconds, draw) for draw in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2] and len(set(drawn[0])) == len(drawn[0])
    assert not set(drawn[0]) & set(of(ProbeRole.HELD_OUT))


def test_seconds_are_those_of_all_samples() -> None:
    [one] = timed_of([{**timed(structured_probes(LOCAL)[:1])[0], "repeats": 3}]).values()
    expected = 3 * sum(one.samples_us) / 1e6
    assert one.seconds == pytest.approx(expected, rel=0.1)


def test_what_has_no_price_is_farther_off_than_anything() -> None:
    """A model of the easy ones alone is not the better for leaving the others out."""
    theta = theta_of([known()[program] for program in fixed()], SECTION)
    some = heldout()
    wanted = set(some[0].features)
    kept = judged(theta, some, wanted)
    column = next(c for c in some[0].features if c.name.endswith(".count"))
    unknown = replace(column, name="x.count", unit="us")
    foreign = [replace(one, features={**one.features, unknown: 1.0}) for one in some]
    few = judged(theta, [*foreign[:4], *some[4:]], wanted | set(foreign[0].features))
    assert few["priced"] == 16 and few["missing"] == kept["missing"] + 1
    assert few["median_log_error"] >= kept["median_log_error"] and few["p90_log_error"] is None
    most = judged(theta, [*foreign[:12], *some[12:]], wanted)
    assert most["priced"] == 8 and most["median_log_error"] is None and most["spearman"] is not None


def test_what_is_held_out_is_in_no_fit(rows: list[dict[str, Any]]) -> None:
    """With other held-out times the cost model stays, and its error does not."""
    slower = {
        program: replace(known()[program], samples_us=tuple(2 * us for us in known()[program].samples_us))
        for program in of(ProbeRole.HELD_OUT)
    }
    again = row(list(arms({**known(), **slower}, fixed(), {}, SECTION, draws=1)), ProbeSource.FIXED)
    assert again["median_log_error"] == pytest.approx(np.log(2), abs=0.1)
    assert again["spearman"] == row(rows, ProbeSource.FIXED)["spearman"]
