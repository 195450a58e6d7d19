"""Regret at planted times: another tree's choices over this run's own, and why one has no time."""

from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.evidence.benched import floor_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.report.regret import lines, page
from overlayccl_core.stages import regret
from overlayccl_core.stages.regret import RedeployTables
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.redeploy import REDEPLOYED, REGRET, SOURCE_PRICES, Replayed
from overlayccl_core.tables.rows import frame_of
from tests.fake_timings import timing_columns
from tests.rows import row

NO_PRICES = pl.DataFrame(schema=SOURCE_PRICES.schema)
CHOSEN, OWN = "hand_bundled", "developer"  # in `why` of the shortlist


def planted(
    tp_flow: SimpleNamespace, *, times: float, own: bool = True, lost: bool = False
) -> RedeployTables:
    """The shortlist of a flow, in which the other tree's choice takes `times` as long as one's own."""
    listed = tp_flow.shortlisted
    of = {True: CHOSEN, False: OWN}
    rows = []
    for one in listed.iter_rows(named=True):
        for other in (True, False)[: 1 + own]:
            if of[other] in one["why"]:
                told = {
                    "program": one["program"],
                    "value_digest": one["value_digest"],
                    "outcome": Replayed.PROVEN,
                }
                if other and lost:
                    told = {"outcome": Replayed.NOT_REPLAYED, "message": "step 1 of 1: no such collectives"}
                place = {name: one[name] for name in ("case", "direction", "candidate")}
                rows.append(
                    row(REDEPLOYED, tree="local" if other else "local-2", way=of[other], **place | told)
                )
    bench = [
        row(
            BENCH,
            **{name: one[name] for name in ("case", "direction", "candidate")},
            **timing_columns(loads(one["program_json"]), us=1e5 * (times if CHOSEN in one["why"] else 1.0)),
            status="timed",
        )
        for one in listed.iter_rows(named=True)
    ]
    return RedeployTables(
        redeployed=frame_of(rows, REDEPLOYED.schema, "redeployed"),
        shortlist=listed,
        bench=frame_of(bench, BENCH.schema, "bench"),
    )


def regret_of(tp_flow: SimpleNamespace, tables: RedeployTables) -> pl.DataFrame:
    rows = regret.run("local-2", [tables], floor_of(tp_flow.probes))
    return frame_of(rows, REGRET.schema, "regret")


@pytest.mark.parametrize(
    ("times", "word"), [(1.5, "slower beyond noise at {all},"), (0.5, "faster at {all}")]
)
def test_it_is_the_other_trees_time_over_ones_own(tp_flow: SimpleNamespace, times: float, word: str) -> None:
    tables = planted(tp_flow, times=times)
    found = regret_of(tp_flow, tables)
    assert found.height == tp_flow.shortlisted.select("case", "direction").n_unique()
    for one in found.iter_rows(named=True):
        assert one["regret_low"] < one["regret"] < one["regret_high"]
        assert one["regret"] == pytest.approx(times, rel=0.1) == one["us"] / one["own_us"]
        assert one["speedup"] == pytest.approx(1 / times, rel=0.1)
    said = lines("local-2", found, tables.redeployed, NO_PRICES)
    assert word.format(all=found.height) in said[-1]
    assert word.format(all=found.height) in page("local-2", found, tables.redeployed, NO_PRICES)


def test_before_this_run_has_chosen_there_is_none(tp_flow: SimpleNamespace) -> None:
    tables = planted(tp_flow, times=1.5, own=False)
    found = regret_of(tp_flow, tables)
    assert found["regret"].null_count() == found.height and found["speedup"].null_count() == 0
    assert lines("local-2", found, tables.redeployed, NO_PRICES)[-1].startswith("No regret")


def test_what_does_not_replay_has_no_time_and_says_why(tp_flow: SimpleNamespace) -> None:
    tables = planted(tp_flow, times=1.5, lost=True)
    found = regret_of(tp_flow, tables)
    assert found["us"].null_count() == found.height
    assert set(found["message"]) == {"step 1 of 1: no such collectives"}
    said = lines("local-2", found, tables.redeployed, NO_PRICES)
    assert sum("not replayed: step 1 of 1" in line for line in said) == found.height


def test_prices_of_another_theta_stand_beside_those_of_ones_own(tp_flow: SimpleNamespace) -> None:
    """The other deployment is of two nodes, on which all calls but one cost ten times as much."""
    own, tables = tp_flow.theta, planted(tp_flow, times=1.5)
    other = own.with_columns(
        pl.col("feature").str.replace("node4", "network4"),
        value=pl.col("value")
        * pl.when(pl.col("feature").str.contains("all_reduce")).then(1.0).otherwise(10.0),
    )
    thetas = {"local": own, "two-tier": other}
    timed = replace(tables, bench=tp_flow.bench)
    rows = regret.priced_by(thetas, tp_flow.judged, [timed], floor_of(tp_flow.probes))
    mine, theirs = rows
    assert [one["tree"] for one in rows] == ["local", "two-tier"] and mine["n"] == theirs["n"]
    assert theirs["median_rel_error"] > 2 * mine["median_rel_error"]
    assert theirs["pair_accuracy"] < mine["pair_accuracy"]
    frame = frame_of(rows, SOURCE_PRICES.schema, "source_prices")
    said = lines("local", regret_of(tp_flow, tables), tables.redeployed, frame)
    assert "priced by its own theta" in said[-2] and "by the theta of two-tier" in said[-1]
