"""The target `tune`: all ways timed on real ranks, and what is computed from their samples."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration.settings import Settings, read
from overlayccl_core.report.tuners import page, sentence
from overlayccl_core.stages import time_ways, weigh_tuners
from overlayccl_core.tables import table
from overlayccl_core.tables.tune import TIMED_WAYS, TUNED_CALLS, TUNER_CURVES
from overlayccl_core.tuning import replay
from overlayccl_core.tuning.open_ways import cases_to_tune, space_of_rows, spaces_of
from tests.fake_timings import FINGERPRINT, timing_columns
from tests.rows import row
from tests.search.costs import theta_of
from tests.timing.batches import deployment, silent

CALLS = [{"calls": [{"kind": "all_to_all", "elements": n}]} for n in (64, 4096)]
HERE = deployment(2)


def settings(calls: list[dict[str, Any]] = CALLS, captured: list[dict[str, Any]] | None = None) -> Settings:
    given = read()
    tune = given.tune.changed(seconds=2.0, minimum_rounds=2, maximum_rounds=6, calls=tuple(calls))
    cases = {} if captured is None else {"captured": tuple(captured)}
    return given.changed(tune=tune, cases=cases)


def timed(us: dict[str, float], rounds: int = 24) -> pl.DataFrame:
    """All ways of both calls take 1 ms, but for those that are named."""
    rows = []
    for case, ways in spaces_of(cases_to_tune(settings(), HERE), HERE, None).items():
        for way in ways:
            about = {"candidate": way.name, "recipe": way.recipe.dumps(), "numerics": way.numerics}
            place = {"problem": "captured", "case": case.id, "direction": "forward"}
            columns = timing_columns(way.program, us=us.get(f"{case.id} {way.name}", 1000.0), rounds=rounds)
            rows.append(row(TIMED_WAYS, **place, **about, family=way.family, parts=way.parts, **columns))
    return pl.DataFrame(rows, schema=TIMED_WAYS.schema)


def weighed(frame: pl.DataFrame, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two tables as they are written."""
    space = space_of_rows(cases_to_tune(settings(), HERE), frame)
    theta = theta_of([way.program for ways in space.values() for way in ways], lambda column: 1.0)
    found = weigh_tuners.run(space, frame, theta, HERE, progress=silent)
    assert found.files.keys() == {"captured.py", "ways.json", "tuned-0.json"}
    return (
        table.write(TUNER_CURVES, found.curves, folder / "tuner_curves.parquet"),
        table.write(TUNED_CALLS, found.calls, folder / "tuned_calls.parquet"),
    )


@pytest.fixture(autouse=True)
def few_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "SEEDS", {})
    monkeypatch.setattr(replay, "USUAL_SEEDS", 2)


def test_the_faster_way_is_chosen_and_the_page_says_so_first(tmp_path: Path) -> None:
    small, large = (case.id for case in cases_to_tune(settings(), HERE))
    other = "permute_ring_exchanges"
    curves, calls = weighed(timed({f"{large} {other}": 500.0}), tmp_path)
    assert calls["case"].to_list() == [small, large]
    assert calls["chosen"].to_list() == ["plain", other]
    assert calls["fingerprint"].to_list() == [FINGERPRINT] * 2
    assert calls["cheapest"].to_list() == ["plain"] * 2  # one call in place of several
    price = curves.filter(tuner="price", case=large)["regret"]
    assert price.to_list() == pytest.approx([1.0] * len(price), rel=0.1)
    assert curves.height == 2 * 5 * len(replay.LOOKS)
    html = page(curves, calls, "here")
    assert html.index("Of 2 calls 1 can be made faster beyond noise") < html.index("All ways were timed")
    assert "The others stay as they are" in sentence(calls)


def test_where_nothing_is_faster_that_is_said_first(tmp_path: Path) -> None:
    curves, calls = weighed(timed({}), tmp_path)
    assert calls["chosen"].to_list() == ["plain"] * 2
    assert "Tuning brings nothing here: of 2 calls none" in page(curves, calls, "here")


def test_on_a_disturbed_machine_every_call_stays(tmp_path: Path) -> None:
    frame = timed({"captured/n2-all_to_all-64-f32 permute_ring_exchanges": 500.0})
    _, calls = weighed(frame.with_columns(disturbed=pl.lit(True)), tmp_path)
    assert calls["chosen"].to_list() == ["plain"] * 2 and "--forcerun time_ways" in sentence(calls)


def test_with_too_few_rounds_every_call_stays(tmp_path: Path) -> None:
    frame = timed({"captured/n2-all_to_all-64-f32 permute_ring_exchanges": 500.0}, rounds=10)
    _, calls = weighed(frame, tmp_path)
    assert calls["chosen"].to_list() == ["plain"] * 2 and sentence(calls).startswith("Too few rounds")


def test_a_captured_step_names_its_own_calls() -> None:
    together = {"calls": [*CALLS[0]["calls"], *CALLS[1]["calls"]]}
    [case] = cases_to_tune(settings(captured=[CALLS[1], together]), HERE)
    assert case.id == "captured/n2-all_to_all-4096-f32"


def test_without_any_call_it_says_where_to_name_one() -> None:
    with pytest.raises(ValueError, match=r"tune\.calls names no call"):
        cases_to_tune(settings(calls=[]), HERE)


@pytest.mark.ranks
def test_all_ways_are_timed_in_one_launch(tmp_path: Path) -> None:
    given = settings(calls=CALLS[:1])
    rows = time_ways.run(HERE, given, None, tmp_path, progress=silent)
    frame = table.write(TIMED_WAYS, rows, tmp_path / "timed_ways.parquet")
    [case] = cases = cases_to_tune(given, HERE)
    [ways] = spaces_of(cases, HERE, None).values()
    assert frame["candidate"].to_list() == [way.name for way in ways]
    assert frame["rounds"].min() == frame["rounds"].max() and frame["launch"].n_unique() == 1
    read_back = space_of_rows(cases, frame)[case]
    assert [(way.program.digest, way.recipe) for way in read_back] == [
        (way.program.digest, way.recipe) for way in ways
    ]
