"""Finalists: the best two that can be true, the baselines beside them, and honest fidelity."""

from collections.abc import Callable, Mapping
from statistics import median
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import write
from tests.stages.flow import finalists_of, quiet


@pytest.fixture
def flow(tp_flow: SimpleNamespace) -> SimpleNamespace:
    """Tables of the first Case only."""
    case = pl.col("case") == tp_flow.listed["case"][0]
    names = ("listed", "shortlisted", "bench", "compared")
    return SimpleNamespace(**vars(tp_flow) | {name: getattr(tp_flow, name).filter(case) for name in names})


def arms(
    flow: SimpleNamespace,
    times: dict[str, float],
    trained: Mapping[str, tuple[str, ...]] = {},
    progress: Callable[[str], None] = quiet,
) -> dict[str, dict[str, Any]]:
    """arm -> row; times: candidate -> factor of its samples."""
    tables = finalists_of(flow, trained, progress, bench=faster(flow.bench, times))
    write(FIDELITY, tables["fidelity"], flow.folder / "again.parquet")
    frame = write(FINALISTS, tables["finalists"], flow.folder / "finalists_again.parquet")
    return {row["arm"]: row for row in frame.iter_rows(named=True)}


def faster(bench: pl.DataFrame, times: dict[str, float]) -> pl.DataFrame:
    rows = [
        row | {"samples_us": [us * times.get(row["candidate"], 1.0) for us in row["samples_us"]]}
        for row in bench.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=bench.schema)


def slower_than_lossy(flow: SimpleNamespace) -> dict[str, float]:
    """Factors with which the lossy candidate is the fastest, in a time that can be true."""
    return {name: 8.0 for name in flow.bench["candidate"] if name != "bf16_on_the_wire"}


def test_the_two_fastest_are_finalists_beside_what_needs_no_search(flow: SimpleNamespace) -> None:
    by_arm = arms(flow, {})
    assert set(by_arm) == {*NEEDS_NO_SEARCH, "finalist_1", "finalist_2"}
    assert by_arm["hand_bundled"]["candidate"] == "merged_over_microbatches"
    us = {row["candidate"]: median(row["samples_us"]) for row in flow.bench.iter_rows(named=True)}
    exact = set(flow.shortlisted.filter(pl.col("numerics") != "lossy")["candidate"])
    assert [by_arm[f"finalist_{k}"]["candidate"] for k in (1, 2)] == sorted(exact, key=lambda one: us[one])[
        :2
    ]


def test_the_fastest_that_people_wrote_is_an_arm(flow: SimpleNamespace) -> None:
    ways = set(flow.known_ways["strategy"])
    found = {name: 0.01 for name in flow.bench["candidate"] if name not in ways}
    by_arm = arms(flow, found | {"reduce_then_gather": 0.02})
    assert by_arm["best_known_way"]["candidate"] in ways
    us = {row["candidate"]: median(row["samples_us"]) for row in flow.bench.iter_rows(named=True)}
    exact = flow.shortlisted.filter((pl.col("numerics") != "lossy") & pl.col("candidate").is_in(ways))
    assert arms(flow, {})["best_known_way"]["candidate"] == min(exact["candidate"], key=lambda one: us[one])


def test_the_fastest_that_overlaps_is_a_finalist_however_slow_the_bench_finds_it(
    flow: SimpleNamespace,
) -> None:
    """In the bench every read is answered at once: there is nothing behind which a collective could hide."""
    case = flow.listed["case"][0]
    overlapping = {
        row["candidate"]
        for row in flow.shortlisted.iter_rows(named=True)
        if row["numerics"] != "lossy" and overlaps(loads(row["program_json"]))
    }
    others = set(flow.shortlisted["candidate"]) - overlapping
    assert overlapping and len(others) >= 2
    first, *rest = sorted(overlapping)
    slow = dict.fromkeys(rest, 500.0) | {first: 50.0}
    assert arms(flow, slow, {case: ("forward",)})["finalist_overlap"]["candidate"] == first
    assert "finalist_overlap" not in arms(flow, slow)  # no step in which it could gain
    slow = dict.fromkeys({*rest, *others}, 500.0)
    assert arms(flow, slow, {case: ("forward",)})["finalist_1"]["candidate"] == first
    assert "finalist_overlap" not in arms(flow, slow, {case: ("forward",)})  # it is finalist_1


def test_where_the_same_programs_come_out_the_table_is_the_same_to_the_byte(flow: SimpleNamespace) -> None:
    arms(flow, {})
    table = flow.folder / "finalists_again.parquet"
    before = table.read_bytes()
    arms(flow, {name: 1.01 for name in flow.bench["candidate"]})  # measured anew, a little slower
    assert table.read_bytes() == before
    dearer = flow.prices.with_columns(pl.col("predicted_us") * 1.1)
    arms(SimpleNamespace(**vars(flow) | {"prices": dearer}), {})  # priced by another cost model
    assert table.read_bytes() == before


def test_a_time_that_cannot_be_true_makes_no_finalist(flow: SimpleNamespace) -> None:
    first = arms(flow, {})["finalist_1"]["candidate"]
    said: list[str] = []
    by_arm = arms(flow, {first: 0.01, "developer": 0.01}, progress=said.append)
    assert first not in (by_arm["finalist_1"]["candidate"], by_arm["finalist_2"]["candidate"])
    assert (
        by_arm["developer"]["candidate"] == "developer"
    )  # trained all the same: others are compared with it
    assert any("developer: " in line and "physical floor" in line for line in said)


def test_a_lossy_candidate_stands_behind_all_others_and_only_where_a_model_can_judge_it(
    flow: SimpleNamespace,
) -> None:
    case = flow.listed["case"][0]
    said: list[str] = []
    for trained in ({}, {case: ("forward",)}):
        by_arm = arms(flow, slower_than_lossy(flow), trained, said.append)
        assert "bf16_on_the_wire" not in {row["candidate"] for row in by_arm.values()}
    assert any("bf16_on_the_wire is" in line and "lossy, so behind them" in line for line in said)
    impossible = dict.fromkeys({*flow.shortlisted["candidate"]} - {"bf16_on_the_wire", "developer"}, 1e-7)
    assert arms(flow, impossible, {case: ("forward",)})["finalist_2"]["candidate"] == "bf16_on_the_wire"
    assert "finalist_2" not in arms(flow, impossible, {case: ("backward",)})
    assert "finalist_2" not in arms(flow, impossible)


def test_the_models_first_choice_is_none_that_is_lossy_however_cheap(flow: SimpleNamespace) -> None:
    lossy = pl.col("candidate" if "candidate" in flow.prices.columns else "strategy") == "bf16_on_the_wire"
    cheap = flow.prices.with_columns(
        pl.when(lossy).then(pl.col(name) / 100).otherwise(name).alias(name)
        for name in ("predicted_us", "low_us", "high_us")
    )
    assert not cheap.equals(flow.prices)
    quick = faster(flow.bench, slower_than_lossy(flow))
    regrets = [
        finalists_of(flow, bench=bench, prices=prices)["fidelity"][0]["top1_regret"]
        for bench, prices in ((flow.bench, flow.prices), (quick, flow.prices), (quick, cheap))
    ]
    assert regrets[0] == regrets[1] == regrets[2]


def test_what_was_not_measured_keeps_its_arm(flow: SimpleNamespace) -> None:
    without = flow.bench.filter(pl.col("candidate") != "merged_over_microbatches")
    row = next(r for r in finalists_of(flow, bench=without)["finalists"] if r["arm"] == "hand_bundled")
    assert (row["candidate"], row["fingerprint"]) == ("merged_over_microbatches", None)


def test_fidelity_is_over_all_that_was_measured(flow: SimpleNamespace) -> None:
    row = flow.compared.row(0, named=True)
    assert (row["case"], row["direction"]) == (flow.listed["case"][0], "forward")
    assert row["n"] == flow.shortlisted.height
    assert row["spearman"] > 0.9


def test_of_those_that_overlap_the_cheapest_in_the_step_joins_and_the_second_if_its_price_is_near(
    flow: SimpleNamespace,
) -> None:
    case = flow.listed["case"][0]
    best = [arms(flow, {})[f"finalist_{k}"]["candidate"] for k in (1, 2)]
    ways = {
        loads(row["program_json"]).digest: row["candidate"]
        for row in flow.shortlisted.iter_rows(named=True)
        if row["numerics"] != "lossy"
        and overlaps(loads(row["program_json"]))
        and row["candidate"] not in best
    }
    cheapest, *others = sorted(ways.values(), reverse=True)
    for near, expected in ((1.04, {cheapest, others[0]}), (1.06, {cheapest})):
        prices = dict.fromkeys(others[1:], 900.0) | {cheapest: 100.0, others[0]: 100.0 * near}
        in_steps = SimpleNamespace(
            us=lambda _, program, prices=prices: {("m", 2): prices.get(ways.get(program.digest), 999.0)}
        )
        tables = finalists_of(flow, {case: ("forward",)}, in_steps=in_steps)
        joined = {row["candidate"] for row in tables["finalists"] if "overlap" in row["arm"]}
        assert joined == expected
        priced = {row["candidate"]: row["step_us"] for row in tables["step_prices"]}
        assert priced[cheapest] == 100 and set(priced) == set(flow.shortlisted["candidate"])
