"""The target `tune`: all ways timed on real ranks, and what is computed from their samples."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration.settings import Settings, read
from overlayccl_core.report.blocks import TIMES
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
    little = {"seconds": 10.0, "minimum_rounds": 2, "maximum_rounds": 2}
    again = given.tune.again.changed(**little | {"maximum_rounds": 3})
    tune = given.tune.changed(**little, again=again, calls=None if calls is None else tuple(calls))
    cases = {} if captured is None else {"captured": tuple(captured)}
    return given.changed(tune=tune, cases=cases)


def timed(us: dict[str, float], again: dict[str, float] | None = None, rounds: int = 60) -> pl.DataFrame:
    """All ways of both calls take 1 ms, but for those that are named. again: in the second launch, if others."""
    rows = []
    for number, times in enumerate([us, us if again is None else again]):
        for case, ways in spaces_of(cases_to_tune(settings(), HERE), HERE, None).items():
            slowest = 1 if number else 0  # is left out of the second launch
            for way in ways[: len(ways) - slowest]:
                about = {"candidate": way.name, "recipe": way.recipe.dumps(), "numerics": way.numerics}
                place = {
                    "problem": "captured",
                    "case": case.id,
                    "direction": "forward",
                    "again": bool(number),
                }
                took = times.get(f"{case.id} {way.name}", 1000.0)
                of = {"rounds": rounds if number else 24, "launch": number}
                columns = timing_columns(way.program, us=took, **of)
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


def test_what_the_page_says_of_a_way_is_of_the_second_launch(tmp_path: Path) -> None:
    """One way was lucky in the first launch; the other gains less than there."""
    small, large = (case.id for case in cases_to_tune(settings(), HERE))
    other = "permute_ring_exchanges"
    first = {f"{small} {other}": 500.0, f"{large} {other}": 250.0}
    curves, calls = weighed(timed(first, {f"{large} {other}": 500.0}), tmp_path)
    assert calls["both_gain"].to_list() == pytest.approx([2.0, 4.0], rel=0.1)
    assert calls["chosen"].to_list() == ["plain", other]
    assert calls["rounds"].to_list() == [24, 24] and calls["again_rounds"].to_list() == [60, 60]
    [gain] = calls.filter(case=large)["gain"]
    assert gain == pytest.approx(2.0, rel=0.1)
    said = f"{gain:.2f}{TIMES} ("
    assert f"{large}: {said}" in sentence(calls) and said in page(curves, calls, "here")


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
    assert calls["chosen"].to_list() == ["plain"] * 2 and "tune.again.seconds" in sentence(calls)


def test_a_captured_step_names_its_own_calls() -> None:
    together = {"calls": [*CALLS[0]["calls"], *CALLS[1]["calls"]]}
    [case] = cases_to_tune(settings(captured=[CALLS[1], together]), HERE)
    assert case.id == "captured/n2-all_to_all-4096-f32"


def test_without_any_call_it_says_where_to_name_one() -> None:
    with pytest.raises(ValueError, match=r"tune\.calls names no call"):
        cases_to_tune(settings(calls=None), HERE)


@pytest.mark.ranks
def test_all_ways_are_timed_in_one_launch_and_the_fastest_again(tmp_path: Path) -> None:
    """Cut off between the two launches, it goes on with the second."""
    given = settings(calls=CALLS[1:])
    said: list[str] = []

    def cut_off(line: str) -> None:
        if "ways again" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        time_ways.run(HERE, given, None, tmp_path, progress=cut_off)
    rows = time_ways.run(HERE, given, None, tmp_path, progress=said.append)
    assert sum("using the samples of a run that was cut off" in line for line in said) == 1
    assert time_ways.run(HERE, given, None, tmp_path, progress=silent) == rows
    frame = table.write(TIMED_WAYS, rows, tmp_path / "timed_ways.parquet")
    [case] = cases = cases_to_tune(given, HERE)
    [ways] = spaces_of(cases, HERE, None).values()
    first, again = frame.filter(again=False), frame.filter(again=True)
    assert first["candidate"].to_list() == [way.name for way in ways] and len(ways) > again.height == 4
    assert again["candidate"][0] == ways[0].name and set(again["candidate"]) < set(first["candidate"])
    assert first["launch"].max() < again["launch"].min()
    assert first["rounds"].min() == first["rounds"].max() == 2 and again["rounds"].min() == 3
    read_back = space_of_rows(cases, frame)[case]
    assert [(way.program.digest, way.recipe) for way in read_back] == [
        (way.program.digest, way.recipe) for way in ways
    ]
