"""From timings to theta, prices, fidelity and summary, through the tables' own checks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from overlayccl_core import settings
from overlayccl_core.deployments.deployment import Deployment, load
from overlayccl_core.probes.probe import Probe
from overlayccl_core.settings import Settings
from overlayccl_core.stages import cases, compare, fit, price, probe, seed, summary
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.summary import SUMMARY
from overlayccl_core.tables.table import Table, write
from overlayccl_core.tables.theta import THETA
from tests.fake_timings import FINGERPRINT, bench_rows, timing_columns

ROOT = Path(__file__).parents[2]
SMALL_A2A = ({"payload": "64KiB"}, {"payload": "512KiB"})


def quiet(_: str) -> None:
    """Progress that nobody reads."""


def capabilities() -> pl.DataFrame:
    """A library that can do everything in groups of 2 and 4."""
    kinds = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
    return pl.DataFrame(
        [
            {
                "operation": k,
                "group_size": g,
                "dtype": d,
                "payload_bytes": 64,
                "supported": True,
                "evidence": "",
            }
            for k in kinds
            for g in (2, 4)
            for d in ("float32", "bfloat16")
        ]
    )


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Every table of one small flow, made by the stages from timings of a known theta."""
    folder = tmp_path_factory.mktemp("tables")

    def checked(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
        return write(table, rows, folder / f"{table.name}.parquet")

    configured = settings.read(ROOT / "config/config.yaml")
    configured = replace(
        configured,
        cases={"uniform_a2a": SMALL_A2A},
        problems=("uniform_a2a",),
        fit=replace(configured.fit, bootstraps=20),
        probe=replace(configured.probe, mixed=40, heldout=30),
    )
    deployment = load(ROOT / "config/deployments/local.yaml")
    probes = checked(PROBES, timed(probe.probes_of(deployment, configured)))
    fitted = fit.run(configured, probes, progress=quiet)
    theta, judged = checked(THETA, fitted["theta"]), checked(FIDELITY, fitted["fidelity"])
    listed = checked(CASES, cases.run(configured, deployment, "uniform_a2a", progress=quiet)["cases"])
    seeds = checked(SEEDS, seed.run(deployment, listed, capabilities(), progress=quiet)["seeds"])
    prices = checked(PRICES, price.run(deployment, seeds, theta, judged, progress=quiet)["prices"])
    bench = checked(BENCH, bench_rows(seeds.iter_rows(named=True)))
    compared = checked(FIDELITY, compare.run(seeds, prices, bench, progress=quiet)["fidelity"])
    yield SimpleNamespace(**locals())


def timed(probes: list[Probe]) -> list[dict[str, Any]]:
    return [{"probe": p.name, "role": p.role.value, **timing_columns(p.program)} for p in probes]


def summed(flow: SimpleNamespace, bench: pl.DataFrame | None = None) -> list[dict[str, Any]]:
    tables = summary.ProblemTables(
        seeds=flow.seeds,
        prices=flow.prices,
        bench=flow.bench if bench is None else bench,
        fidelity=flow.compared,
    )
    found = summary.run(flow.deployment, {"uniform_a2a": tables}, flow.probes, flow.judged, progress=quiet)[
        "summary"
    ]
    return list(write(SUMMARY, found, flow.folder / "summary.parquet").iter_rows(named=True))


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


def test_every_seed_program_has_a_price_whose_terms_add_up(flow: SimpleNamespace) -> None:
    programs = flow.seeds.filter(pl.col("status") == "program")
    assert flow.prices.height == programs.height
    assert set(flow.prices["direction"]) == {"forward", "backward"}
    for row in flow.prices.iter_rows(named=True):
        terms = [row[f"{t}_us"] or 0 for t in ("launch", "collectives", "amortization", "copies", "network")]
        assert row["feasible"] and row["reason"] == "ok"
        assert sum(terms) == pytest.approx(row["predicted_us"])
        assert row["low_us"] < row["predicted_us"] < row["high_us"]
        assert row["compile_us"] is None


def test_an_illegal_seed_has_no_price_but_a_reason(flow: SimpleNamespace) -> None:
    some = flow.seeds.head(1).with_columns(legality=pl.lit("fail"), reason=pl.lit("memory"))
    row = price.run(flow.deployment, some, flow.theta, flow.judged, progress=quiet)["prices"][0]
    assert (row["feasible"], row["reason"], row["predicted_us"]) == (False, "memory", None)


def test_a_seed_that_needs_an_unfitted_column_has_no_price_and_says_which(flow: SimpleNamespace) -> None:
    without = flow.theta.filter(~pl.col("feature").str.starts_with("all_gather"))
    rows = price.run(flow.deployment, flow.seeds, without, flow.judged, progress=quiet)["prices"]
    row = next(r for r in rows if r["strategy"] == "developer")
    assert row["predicted_us"] is None
    assert "all_gather.node4.alone.count" in row["reason"]


def test_each_case_is_compared(flow: SimpleNamespace) -> None:
    assert flow.compared["case"].to_list() == flow.listed["case"].to_list()
    assert set(flow.compared["problem"]) == {"uniform_a2a"}
    assert flow.compared["median_rel_error"].max() < 0.2
    assert flow.compared["top1_within_noise"].all()


def test_the_summary_lists_every_forward_seed_with_its_figures(flow: SimpleNamespace) -> None:
    rows = summed(flow)
    assert len(rows) == flow.seeds.filter(pl.col("direction") == "forward").height
    measured = [r for r in rows if r["status"] == "program"]
    assert {r["validity"] for r in measured} == {"valid"}
    for row in measured:
        assert row["proof"] == "pass"
        assert row["measured_low_us"] < row["measured_us"] < row["measured_high_us"]
        assert row["algbw_gbps"] == pytest.approx(payload(row["case"]) / row["measured_us"] / 1e3)
        assert row["busbw_gbps"] == pytest.approx(row["algbw_gbps"] * 3 / 4)
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    developer = [r for r in measured if r["role"] == "developer"]
    assert [r["speedup"] for r in developer] == [1.0, 1.0]


def payload(case: str) -> int:
    return 64 * 1024 if "64KiB" in case else 512 * 1024


def test_what_is_not_applicable_is_listed_unmeasured(flow: SimpleNamespace) -> None:
    rows = [r for r in summed(flow) if r["status"] == "not_applicable"]
    assert rows
    assert all(r["validity"] == "unmeasured" and r["measured_us"] is r["fingerprint"] is None for r in rows)


def test_a_time_below_the_floor_is_invalid_and_no_win(flow: SimpleNamespace) -> None:
    bench = flow.bench.with_columns(
        samples_us=pl.when(pl.col("strategy") == "native")
        .then(pl.col("samples_us").list.eval(pl.element() * 0.01))
        .otherwise(pl.col("samples_us"))
    )
    rows = [r for r in summed(flow, bench) if r["strategy"] == "native"]
    assert [(r["validity"], r["speedup"]) for r in rows] == [("invalid", None)] * 2
    assert all(r["measured_us"] < r["floor_us"] for r in rows)


def test_two_machines_are_not_mixed(flow: SimpleNamespace) -> None:
    other = flow.bench.with_columns(fingerprint=pl.lit("host other"))
    with pytest.raises(ValueError, match=r"not mixed.*Measure again"):
        compare.run(flow.seeds, flow.prices, other, progress=quiet)
    with pytest.raises(ValueError, match="not mixed"):
        summed(flow, other)


def test_the_held_out_seed_must_not_be_the_fitted_one(flow: SimpleNamespace) -> None:
    deployment: Deployment = flow.deployment
    clash: Settings = replace(flow.configured, heldout_seed=flow.configured.probe.mixed_seed)
    with pytest.raises(ValueError, match="heldout_seed must differ"):
        probe.probes_of(deployment, clash)
