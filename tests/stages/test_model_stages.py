"""From timings to theta, prices, fidelity and summary, through the tables' own checks."""

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.probes.sweep import probes_of
from overlayccl_core.stages import fit, price, summary
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.table import write
from tests.fake_timings import FINGERPRINT
from tests.stages.flow import chosen_of, finalists_of, quiet


@pytest.fixture(scope="module")
def flow(a2a_flow: SimpleNamespace) -> SimpleNamespace:
    """Every table of one small flow, with a choice; no model has these Cases."""
    choice = a2a_flow.checked(CHOICE, chosen_of(a2a_flow).choice)
    return SimpleNamespace(**vars(a2a_flow), choice=choice)


def summed(flow: SimpleNamespace, bench: pl.DataFrame | None = None) -> list[dict[str, Any]]:
    tables = summary.SummaryTables(
        **{name: getattr(flow, name) for name in ("known_ways", "prices", "candidates", "choice")},
        shortlist=flow.shortlisted,
        bench=flow.bench if bench is None else bench,
    )
    made = summary.run(flow.deployment, {"uniform_a2a": tables}, flow.probes, flow.judged, progress=quiet)
    return list(write(SUMMARY, made, flow.folder / "summary.parquet").iter_rows(named=True))


def test_the_held_out_programs_are_predicted_to_the_noise(flow: SimpleNamespace) -> None:
    row = flow.judged.row(0, named=True)
    assert (row["problem"], row["n"], row["rounds"], row["fingerprint"]) == (None, 30, 12, FINGERPRINT)
    assert row["median_rel_error"] < 0.05
    assert row["spearman"] > 0.99
    assert row["residual_low"] < 1 < row["residual_high"]


def test_held_out_programs_are_not_fitted(flow: SimpleNamespace) -> None:
    changed = flow.probes.with_columns(
        samples_us=pl.when(pl.col("role") == "heldout")
        .then(pl.col("samples_us").list.eval(pl.element() * 7))
        .otherwise(pl.col("samples_us"))
    )
    again = fit.run(flow.configured, changed, progress=quiet)
    assert again["theta"] == flow.fitted["theta"]
    assert again["fidelity"][0]["median_rel_error"] > 0.8


def test_every_coefficient_of_local_probes_has_a_value(flow: SimpleNamespace) -> None:
    assert set(flow.theta["status"]) <= {"fitted", "zero"}


def test_every_known_way_program_has_a_price_whose_terms_add_up(flow: SimpleNamespace) -> None:
    programs = flow.known_ways.filter(pl.col("status") == "program")
    assert flow.prices.height == programs.height
    assert set(flow.prices["direction"]) == {"forward", "backward"}
    for row in flow.prices.iter_rows(named=True):
        terms = [row[f"{t}_us"] or 0 for t in ("launch", "collectives", "amortization", "copies", "network")]
        assert row["feasible"] and row["reason"] == "ok"
        assert sum(terms) == pytest.approx(row["predicted_us"])
        assert row["low_us"] < row["predicted_us"] < row["high_us"]


def test_an_illegal_known_way_has_no_price_but_a_reason(flow: SimpleNamespace) -> None:
    some = flow.known_ways.head(1).with_columns(legality=pl.lit("fail"), reason=pl.lit("memory"))
    row = price.run(flow.deployment, some, flow.theta, flow.judged, progress=quiet)[0]
    assert (row["feasible"], row["reason"], row["predicted_us"]) == (False, "memory", None)


def test_a_known_way_that_needs_an_unfitted_column_has_no_price_and_says_which(flow: SimpleNamespace) -> None:
    without = flow.theta.filter(~pl.col("feature").str.starts_with("all_gather"))
    rows = price.run(flow.deployment, flow.known_ways, without, flow.judged, progress=quiet)
    row = next(r for r in rows if r["strategy"] == "gather_slice")
    assert row["predicted_us"] is None
    assert "all_gather.node4.alone.count" in row["reason"]


def test_each_case_and_direction_is_compared(flow: SimpleNamespace) -> None:
    places = flow.listed["case"].to_list()
    assert flow.compared.select("case", "direction").rows() == [(None, None)] + [
        (case, direction) for case in places for direction in ("forward", "backward")
    ]
    assert set(flow.compared["problem"]) == {"uniform_a2a"}
    assert flow.compared["median_rel_error"].max() < 0.2
    assert flow.compared["top1_within_noise"].all()
    assert flow.compared["n"].min() >= 7


def test_the_summary_lists_known_ways_and_finds_with_their_figures(flow: SimpleNamespace) -> None:
    rows = summed(flow)
    ways = {(r["case"], r["direction"], r["strategy"]) for r in flow.known_ways.iter_rows(named=True)}
    listed = {(r["case"], r["direction"], r["candidate"]) for r in flow.shortlisted.iter_rows(named=True)}
    assert {(r["case"], r["direction"], r["candidate"]) for r in rows} == ways | listed
    measured = [r for r in rows if r["validity"] == "valid"]
    assert len(measured) >= len(listed)
    for row in measured:
        assert row["proof"] == "pass"
        assert row["measured_low_us"] < row["measured_us"] < row["measured_high_us"]
        assert row["algbw_gbps"] == pytest.approx(payload(row["case"]) / row["measured_us"] / 1e3)
        assert row["busbw_gbps"] == pytest.approx(row["algbw_gbps"] * 3 / 4)
        if row["speedup"] is not None:
            assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    developer = [r for r in measured if r["role"] == "developer"]
    assert [r["speedup"] for r in developer] == [None] * 4  # against itself
    assert {r["role"] for r in rows} == {"developer", "other", "found"}


def test_the_summary_marks_what_is_deployed(flow: SimpleNamespace) -> None:
    chosen = {(r["case"], r["direction"]): r["program"] for r in flow.choice.iter_rows(named=True)}
    marked = [r for r in summed(flow) if r["chosen"]]
    assert {(r["case"], r["direction"]) for r in marked} == set(chosen)
    assert {r["candidate"] for r in marked if r["direction"] == "forward"} == {"native"}


def payload(case: str) -> int:
    return 64 * 1024 if "64KiB" in case else 512 * 1024


def test_what_is_not_applicable_is_listed_unmeasured(flow: SimpleNamespace) -> None:
    rows = [r for r in summed(flow) if r["status"] == "not_applicable"]
    assert rows
    assert all(r["validity"] == "unmeasured" and r["measured_us"] is r["fingerprint"] is None for r in rows)


def test_a_time_below_the_floor_is_invalid_and_no_win(flow: SimpleNamespace) -> None:
    bench = flow.bench.with_columns(
        samples_us=pl.when(pl.col("candidate") == "native")
        .then(pl.col("samples_us").list.eval(pl.element() * 0.01))
        .otherwise(pl.col("samples_us"))
    )
    rows = [r for r in summed(flow, bench) if (r["candidate"], r["direction"]) == ("native", "forward")]
    assert [(r["validity"], r["speedup"]) for r in rows] == [("invalid", None)] * 2
    assert all(r["measured_us"] < r["floor_us"] for r in rows)


def test_two_machines_are_not_mixed(flow: SimpleNamespace) -> None:
    other = flow.bench.with_columns(fingerprint=pl.lit("host other"))
    with pytest.raises(ValueError, match=r"not mixed.*Measure again"):
        finalists_of(flow, bench=other)
    with pytest.raises(ValueError, match="not mixed"):
        summed(flow, other)


def test_the_held_out_seed_must_not_be_the_fitted_one(flow: SimpleNamespace) -> None:
    deployment: Deployment = flow.deployment
    clash: Settings = flow.configured.model_copy(update={"heldout_seed": flow.configured.probe.mixed_seed})
    with pytest.raises(ValueError, match="heldout_seed must differ"):
        probes_of(deployment, clash)
