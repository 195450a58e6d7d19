"""What a choice is compared with, and by which figures."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.report.terms import Explanation, PriceSide, explanations, term_names
from overlayccl_core.tables.prices import TERMS_US

PLACE = {"case": "p/n4", "direction": "forward"}
US = {"d": 100.0, "m": 30.0, "x": 20.0, "y": 10.0}  # program -> predicted
NAMES = {"d": "developer", "m": "merged", "x": "found-1", "y": "found-2"}


def priced(program: str, **more: Any) -> dict[str, Any]:
    us = US[program]
    terms = {**dict.fromkeys(TERMS_US), "collectives_us": 0.75 * us, "copies_us": 0.25 * us}
    return {
        **PLACE,
        "program": program,
        "predicted_us": us,
        "low_us": 0.9 * us,
        "high_us": 1.2 * us,
        **terms,
        **more,
    }


def explained(measured: dict[str, float], *, chosen: str = "m", searched: bool = True) -> Explanation:
    """The one choice among four Programs of which some were measured."""
    ways = [{**PLACE, "role": role, "program": p} for p, role in (("d", "developer"), ("m", "hand_bundled"))]
    prices = [priced(p, strategy=NAMES[p], feasible=True) for p in "dm"]
    candidates = [priced(p, candidate=NAMES[p], equivalence="pass") for p in "mx"]
    candidates.append(priced("y", candidate=NAMES["y"], equivalence="fail"))
    bench = [
        {
            **PLACE,
            "candidate": NAMES[p],
            "program": p,
            "launch": 0,
            "samples_us": [us, 1.01 * us, 0.99 * us],
            "oversubscribed": False,
            "disturbed": False,
            "fingerprint": "",
        }
        for p, us in measured.items()
    ]
    schema = {"case": pl.String, "direction": pl.String, "candidate": pl.String, "program": pl.String}
    choice = [{**PLACE, "candidate": NAMES[chosen], "program": chosen}]
    verdicts = [
        {**PLACE, "gate": gate, "outcome": outcome, "message": f"{gate} {outcome}"}
        for gate, outcome in (("choice", "fail"), ("choice", "pass"), ("bench", "pass"))
    ]
    (explanation,) = explanations(
        pl.DataFrame(choice),
        pl.DataFrame(verdicts),
        pl.DataFrame(ways),
        pl.DataFrame(prices),
        pl.DataFrame(candidates, infer_schema_length=None) if searched else None,
        pl.DataFrame(bench) if bench else pl.DataFrame(schema=schema),
    )
    return explanation


def test_the_runner_up_is_the_quickest_other_one_that_was_measured() -> None:
    explanation = explained({"d": 90.0, "m": 25.0, "x": 28.0})
    assert [(part, one.name) for part, one in explanation.parts] == [
        (PriceSide.CHOSEN, "merged"),
        (PriceSide.RUNNER_UP, "found-1"),
        (PriceSide.DEVELOPER, "developer"),
    ]
    assert explanation.chosen.measured_us == pytest.approx(25.0, rel=0.01)
    assert explanation.chosen.measured_low_us is not None and explanation.chosen.measured_low_us < 25.0
    assert explanation.reason == "choice pass"


def test_the_terms_of_each_add_up_to_its_price() -> None:
    for _, one in explained({"d": 90.0, "m": 25.0}).parts:
        assert sum(one.terms.values()) == pytest.approx(one.predicted_us)
        assert term_names([one]) == ["collectives", "copies"]


def test_a_developer_that_is_the_runner_up_or_the_choice_is_not_shown_twice() -> None:
    explanation = explained({"d": 90.0, "m": 25.0})
    assert [part for part, _ in explanation.parts] == [PriceSide.CHOSEN, PriceSide.RUNNER_UP]
    assert [p for p, _ in explained({"d": 20.0, "m": 25.0}, chosen="d").parts] == [
        PriceSide.CHOSEN,
        PriceSide.RUNNER_UP,
    ]


def test_without_measurements_the_runner_up_is_the_cheapest_that_is_proven() -> None:
    explanation = explained({})
    assert explanation.runner_up is not None and explanation.runner_up.name == "found-1"
    assert explanation.chosen.measured_us is None
    without_search = explained({}, searched=False)
    assert without_search.runner_up is not None and without_search.runner_up.name == "developer"


def test_what_was_measured_and_has_no_price_is_compared_by_its_time() -> None:
    explanation = explained({"m": 25.0, "y": 26.0})
    assert explanation.runner_up is not None and explanation.runner_up.name == "found-2"
    assert explanation.runner_up.predicted_us is None and explanation.runner_up.terms == {}
