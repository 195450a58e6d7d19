"""What a run cost, when that is paid back, and where it got less than was asked for."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.cli.summary import spent_text
from overlayccl_core.configuration.deployment import Tier, load
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.report import deployed as deployed_part
from overlayccl_core.report import spending
from overlayccl_core.report.blocks import Block, TableBlock, Text, duration
from overlayccl_core.report.end_to_end import end_to_end
from overlayccl_core.report.payback import (
    UNTRAINED,
    Cost,
    Payback,
    Steps,
    cost_of,
    payback,
    start_us,
    steps_text,
    together,
)
from overlayccl_core.report.shortfalls import shortfalls
from overlayccl_core.report.tree import JobTime, Tree
from overlayccl_core.rule import ALL, rules
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STAMPS, STEPS
from tests.fake_timings import timing_columns
from tests.report.fixture_rows import REPOSITORY, put, settings
from tests.report.fixture_tree import write_tree
from tests.report.test_worth import beside, deployed, rival, worth
from tests.rows import row

JOBS = (JobTime(name="probe", last_s=30.0), JobTime(name="fit", last_s=4.0, lost_s=2.0))
COST = Cost(
    jobs=JOBS, nodes=3, unknown=(), trains={"nano": frozenset({"tp_mlp"})}, problems=frozenset({"tp_mlp"})
)


def table(blocks: Sequence[Block], title: str) -> dict[str, tuple[str, ...]]:
    """The rows of the table whose title begins so, by their first cell."""
    (titled,) = (b for b in blocks if isinstance(b, TableBlock) and b.title.startswith(title))
    return {row[0]: row[1:] for row in titled.rows}


def texts(blocks: Sequence[Block]) -> str:
    return " ".join(b.text for b in blocks if isinstance(b, Text))


# ---------------------------------------------------------------------------------------------- what it took
def test_break_even_is_the_runs_seconds_over_what_a_step_saves_and_has_the_gains_interval() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 7.0, 4.0, 10.0))
    paid = payback(told, told.rival, COST)
    assert paid.saved_us == pytest.approx((6e5, 3e5, 9e5))
    assert paid.steps == Steps(value=60, low=40, high=120)
    assert paid.steps_of_nodes == Steps(value=54, low=36, high=107)  # probe on three nodes, fit on one
    assert steps_text(paid) == "60 (40..120) steps; by node-seconds 54 (36..107)"
    alone = payback(told, told.rival, replace(COST, nodes=1))
    assert steps_text(alone) == "60 (40..120) steps"


def test_what_a_start_takes_more_is_paid_back_too() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 7.0, 4.0, 10.0))
    compiling = payback(told, told.rival, COST, more_us=36e6)
    assert compiling.steps == Steps(value=120, low=80, high=240)
    quicker = payback(told, told.rival, COST, more_us=-72e6)
    assert quicker.steps == Steps(value=0, low=0, high=0)


def test_a_start_is_the_excess_of_cold_steps_over_steady_ones(whole: Path) -> None:
    tree = Tree(path=whole)
    (told,) = tree.worths
    mine, other = (one.step_us for one in (told.deployed, told.developer) if one is not None)
    assert start_us(tree, told, told.developer) == pytest.approx((2 - 1) * mine - (2 - 1) * other, rel=0.05)


@pytest.mark.parametrize("gain", [(0.9, 0.85, 0.95), (1.0, 0.97, 1.03), (1.3, 1.0, 1.6), (1.3,)])
def test_what_is_not_faster_beyond_noise_pays_nothing_back(gain: tuple[float, ...]) -> None:
    told = worth(deployed(), rival(2, "hand_bundled", *gain))
    paid = payback(told, told.rival, COST)
    assert paid == Payback(saved_us=None, steps=None) and steps_text(paid).startswith("never")


def test_what_is_deployed_saves_nothing_over_its_own_programs() -> None:
    mine = deployed(ran_as="developer", needs_search=False)
    told = worth(mine, beside(2, "developer", 1.2, 1.1, 1.3), chosen="developer")
    assert payback(told, told.developer, COST).saved_us is None


def test_a_job_that_measures_holds_every_node() -> None:
    assert [COST.node_seconds_of(job) for job in COST.jobs] == [90.0, 6.0] and COST.node_seconds == 96.0


# ------------------------------------------------------------------------------------------------ the account
def of_two_models(**more: Any) -> Cost:
    """Jobs of two models with one Problem in common, and of one Problem that no model has."""
    seconds = {
        "probe": 60.0, "search-grad_ar-offline": 8.0, "bench-grad_ar": 40.0, "bench-tp_mlp": 30.0,
        "bench-dist_ce": 20.0, "train-nano": 100.0, "train-nano-dp": 50.0, "confirm": 90.0,
    }  # fmt: skip
    return Cost(
        jobs=tuple(JobTime(name=name, last_s=s) for name, s in seconds.items()),
        nodes=2,
        unknown=(),
        trains={"nano": frozenset({"tp_mlp", "grad_ar"}), "nano-dp": frozenset({"grad_ar"})},
        problems=frozenset({"tp_mlp", "grad_ar", "dist_ce"}),
        **more,
    )


def test_a_shared_job_is_spread_over_whom_it_served_and_shares_add_up() -> None:
    cost = of_two_models()
    shares = cost.shares()
    assert shares == pytest.approx(
        {
            "nano": 60 / 3 + 8 / 2 + 40 / 2 + 30 + 100 + 90 / 3,
            "nano-dp": 60 / 3 + 8 / 2 + 40 / 2 + 50 + 90 / 3,
            UNTRAINED: 60 / 3 + 20 + 90 / 3,
        }
    )
    assert sum(shares.values()) == pytest.approx(cost.seconds) == pytest.approx(398.0)


def test_alone_a_model_needed_each_job_that_served_it_in_full() -> None:
    cost = of_two_models()
    assert cost.alone("nano").seconds == 60 + 8 + 40 + 30 + 100 + 90
    assert cost.alone("nano-dp").seconds == 60 + 8 + 40 + 50 + 90


def test_together_every_job_counts_once_and_a_loss_saves_nothing() -> None:
    gains, loss = (
        worth(deployed(), rival(2, "hand_bundled", *gain)) for gain in ((2.0, 1.5, 3.0), (0.8, 0.7, 0.9))
    )
    cost = of_two_models()
    assert together([(gains, gains.rival, 0.0), (loss, loss.rival, 0.0)], cost).steps == Steps(
        value=3980, low=1990, high=7960
    )
    assert together([(gains, gains.rival, 0.0)] * 2, cost).steps == Steps(value=1990, low=995, high=3980)
    assert together([(loss, loss.rival, 0.0)], cost) == Payback()


def test_no_phase_of_a_run_is_left_out_of_the_account(whole: Path) -> None:
    counted = [
        name for name, rule in rules(ALL).items() if not (rule.shows or rule.like or rule.second_round)
    ]
    rows = table(spending.blocks(Tree(path=whole)), "What was spent")
    assert set(counted) == set(rows) - {"together"}
    each = [float(cells[1].replace(",", "")) for phase, cells in rows.items() if phase != "together"]
    assert sum(each) == pytest.approx(float(rows["together"][1].replace(",", "")), abs=1.0)


def test_attempts_that_left_no_tables_are_in_the_account_and_in_the_break_even(run: Path) -> None:
    before = cost_of(Tree(path=run))
    (run / "logs/train-nano.attempts").write_text("0.0\t500.0\tended\n600.0\t805.0\tmade\n")
    after = cost_of(Tree(path=run))
    assert before is not None and after is not None and after.seconds == pytest.approx(before.seconds + 500)
    assert table(spending.blocks(Tree(path=run)), "What was spent")["train"] == (
        "1",
        "705.0",
        "500.0",
        "705.0",
    )


def test_money_is_told_where_a_node_has_a_price_and_nowhere_else(whole: Path) -> None:
    free, priced = Tree(path=whole), Tree(path=whole, node_usd_per_hour=36.0)
    rows = table(spending.blocks(priced), "What was spent")
    assert rows["train"][-1] == "2.05" and len(table(spending.blocks(free), "What was spent")["train"]) == 4
    assert " USD)" in next(spent_text(priced)) and "USD" not in next(spent_text(free))


def test_answers_of_language_models_are_money_even_where_nodes_have_no_price() -> None:
    block = spending._account(of_two_models(asked_usd=0.25))
    rows = {row[0]: row[-1] for row in block.rows}
    assert block.headers[-1] == "USD" and rows["answers of language models"] == "0.25"
    assert rows["together"] == "\N{EN DASH}"  # that of the nodes is not known
    both = {
        row[0]: row[-1]
        for row in spending._account(of_two_models(asked_usd=0.25, node_usd_per_hour=1.0)).rows
    }
    assert both["together"] == f"{0.25 + of_two_models().node_seconds / 3600:.2f}"  # type: ignore[operator]


# ------------------------------------------------------------------------------------------ tuning end to end
def trained_at_its_case(run: Path) -> tuple[pl.DataFrame, int]:
    """Let the model's stamps name the Case of the Problem's tables; its steps, and how many Programs are proven."""
    prices = pl.read_parquet(run / "problems/tp_mlp/prices.parquet")
    (case,) = prices["case"].unique()
    stamps = pl.read_parquet(run / "train/nano/stamps.parquet").with_columns(case=pl.lit(case))
    put(STAMPS, stamps.to_dicts(), run / "train/nano/stamps.parquet")
    here = prices.filter(direction=stamps["direction"][0])
    return pl.read_parquet(run / "train/nano/steps.parquet"), here["program"].n_unique()


def test_tuning_end_to_end_trains_every_proven_candidate_as_the_finalists_were(run: Path) -> None:
    steps, proven = trained_at_its_case(run)
    (one,) = end_to_end(Tree(path=run), cost_of(Tree(path=run)))
    assert (one.priced, one.proven, one.arms) == (
        3 * proven,
        3 * proven,
        3 * proven,
    )  # at 1, 2 and 8 microbatches
    own_s = [(sum(row["cold_us"]) + sum(row["steps_us"])) / 1e6 for row in steps.iter_rows(named=True)]
    launches = steps.select("microbatches", "arm", "launch").n_unique()
    rest_s = (205.0 - sum(own_s)) / launches  # of starting, inspecting and all else, for each arm in a launch
    finalists = [
        (row["microbatches"], row["arm"], own) for row, own in zip(steps.iter_rows(named=True), own_s, strict=True)
        if row["arm"].startswith("finalist")
    ]  # fmt: skip
    by_m = {}
    for m in (1, 2, 8):
        arms = {arm for at, arm, _ in finalists if at == m}
        by_m[m] = sum(own for at, _, own in finalists if at == m) / len(arms) + 4 * rest_s
    assert one.seconds == pytest.approx(proven * sum(by_m.values()))
    assert one.here.seconds == pytest.approx(635.3)
    assert one.times_as_long == pytest.approx(one.seconds / 635.3)
    (cells,) = table(spending.blocks(Tree(path=run)), "What tuning end to end").values()
    assert cells[:3] == (str(3 * proven),) * 3
    assert "To train every proven candidate as the finalists were:" in next(spent_text(Tree(path=run)))


def test_an_arm_holds_a_candidate_of_every_case_of_a_step_at_once(run: Path) -> None:
    """At 2 microbatches the step has a second Case, with a single proven Program."""
    _, proven = trained_at_its_case(run)
    assert proven > 1
    prices, stamps = run / "problems/tp_mlp/prices.parquet", run / "train/nano/stamps.parquet"
    rows, sites = pl.read_parquet(prices), pl.read_parquet(stamps)
    other = {"case": pl.lit("tp_mlp/n4-other")}
    here = rows.filter(direction=sites["direction"][0]).head(1).with_columns(**other)
    put(PRICES, pl.concat([rows, here]).to_dicts(), prices)
    more = sites.filter(microbatches=2).with_columns(**other)
    put(STAMPS, pl.concat([sites, more]).to_dicts(), stamps)
    (one,) = end_to_end(Tree(path=run), cost_of(Tree(path=run)))
    assert (one.proven, one.arms) == (3 * proven + 1, 3 * proven)


def test_what_is_not_proven_needs_no_training(run: Path) -> None:
    _, proven = trained_at_its_case(run)
    for table_of, name, off in (
        (PRICES, "prices", {"feasible": False}),
        (CANDIDATES, "search/offline/candidates", {"equivalence": "fail"}),
    ):
        path = run / f"problems/tp_mlp/{name}.parquet"
        rows = pl.read_parquet(path).to_dicts()
        first = min(row["program"] for row in rows)
        put(table_of, [row | (off if row["program"] == first else {}) for row in rows], path)
    (one,) = end_to_end(Tree(path=run), cost_of(Tree(path=run)))
    assert one.priced - one.proven in (0, 3) and one.proven <= 3 * proven


def test_without_training_nothing_is_said_of_tuning_end_to_end(run: Path) -> None:
    shutil.rmtree(run / "train")
    assert not end_to_end(Tree(path=run), cost_of(Tree(path=run)))


def test_nodes_are_those_of_the_ranks_that_were_probed(run: Path) -> None:
    assert (cost := cost_of(Tree(path=run))) is not None and cost.nodes == 1
    here = load(REPOSITORY / "config/deployments/local.yaml")
    two = here.changed(ranks_per_node=2, tiers=(Tier(name="node", ranks=2), Tier(name="network", ranks=4)))
    (probe,) = mixed_probes(two, seed=1, count=1, role=ProbeRole.HELD_OUT)
    put(
        PROBES,
        [row(PROBES, probe="p", role="heldout", **timing_columns(probe.program))],
        run / "probes.parquet",
    )
    assert (cost := cost_of(Tree(path=run))) is not None and cost.nodes == 2
    rows = table(spending.blocks(Tree(path=run)), "What was spent")
    assert rows["probe"] == ("1", "171.2", "0.0", "342.4") and rows["search"] == ("1", "13.0", "0.0", "13.0")


def test_a_whole_run_tells_cold_and_steady_steps_and_its_break_even(whole: Path) -> None:
    rows = table(spending.blocks(Tree(path=whole)), "After how many")
    assert (
        rows["together"][2].split()[0] == rows["nano: the chosen file at M = 1"][2].split()[0]
    )  # there is one
    developer, mine, over_developer, over_rival = rows["nano: the chosen file at M = 1"]
    assert developer == "336 ms, then 168 ms" and mine == "244 ms, then 122 ms"
    # 9 + 171.2 + 4.4 + 7 x 1.1 + 52.9 + 13 + 205 + 172 s, without summary and report, over about 0.046 s a step
    assert 13_500 < int(over_developer.split()[0].replace(",", "")) < 14_500
    assert "(developer at M = 1)" in over_developer and "best known way at M = 1" in over_rival
    assert table(spending.blocks(Tree(path=whole)), "What was spent")["together"] == (
        "15",
        "635.3",
        "0.0",
        "635.3",
    )


def test_where_developers_calls_stay_nothing_is_paid_back_over_them(tmp_path: Path) -> None:
    tree = Tree(path=write_tree(tmp_path / "local", chosen="developer", problems=("tp_mlp",), data=False))
    (_, _, over_developer, _), together_row = table(spending.blocks(tree), "After how many").values()
    assert "it is what is deployed (" in over_developer and together_row[2].startswith("never")
    (said,) = spent_text(tree)
    assert "10.6 minutes" in said and "nano never." in said


def test_what_is_known_is_paid_back_over_developer_and_never_over_itself(tmp_path: Path) -> None:
    tree = Tree(
        path=write_tree(tmp_path / "local", chosen="best_known_way", problems=("tp_mlp",), data=False)
    )
    (said,) = spent_text(tree)
    assert "steps over developer" in said and "and never over the known way itself." in said


def test_where_a_job_left_no_duration_no_break_even_is_told(run: Path) -> None:
    (run / "logs/bench-tp_mlp.attempts").unlink()
    blocks = spending.blocks(Tree(path=run))
    assert "bench-tp_mlp left no" in texts(blocks)
    assert "saves 4" in table(blocks, "After how many")["nano: the chosen file at M = 1"][2]
    assert list(spent_text(Tree(path=run))) == []


def test_the_summary_tells_the_break_even_of_each_model_over_both(whole: Path, tmp_path: Path) -> None:
    (said,) = spent_text(Tree(path=whole))
    assert "10.6 minutes" in said
    ((over_developer, over_rival),) = re.findall(
        r"nano ([\d,]+) \(\S+\) steps over developer.* ([\d,]+) \(\S+\) steps over best", said
    )
    assert 4 * int(over_developer.replace(",", "")) < int(over_rival.replace(",", ""))
    slower = write_tree(tmp_path / "local", problems=("grad_ar",))
    assert "nano-dp never" in next(spent_text(Tree(path=slower)))  # torch's own is to be kept


@pytest.mark.parametrize(("seconds", "text"), [(89.4, "89 s"), (179.9, "3 min 00 s"), (125, "2 min 05 s")])
def test_durations_are_rounded_before_they_are_split(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# -------------------------------------------------------------------------------- less than was asked for
def test_a_run_that_got_what_it_asked_for_is_silent(whole: Path) -> None:
    assert shortfalls(Tree(path=whole)) == []


def test_fewer_rounds_and_steps_than_asked_for_are_told_from_tables_and_sidecars(run: Path) -> None:
    bench, steps = run / "problems/tp_mlp/bench.parquet", run / "train/nano/steps.parquet"
    mine = settings()
    asked = mine.changed(
        bench=mine.bench.changed(minimum_rounds=15),
        train=mine.train.changed(minimum_steps=8, maximum_steps=20),
        confirm=mine.confirm.changed(minimum_rounds=8, minimum_steps=8, maximum_steps=20),
    )
    for name, of in (("confirmed", CONFIRMED), ("confirmed_steps", CONFIRMED_STEPS)):
        path = run / f"{name}.parquet"
        put(of, pl.read_parquet(path).to_dicts(), path, asked.part("confirm"))
    put(BENCH, pl.read_parquet(bench).to_dicts(), bench, asked.part("bench"))
    put(STEPS, pl.read_parquet(steps).to_dicts(), steps, asked.part("train"))
    said = texts(deployed_part.conditions(Tree(path=run)))
    rounds = ("bench of tp_mlp 12 of 15", "confirms 6 of 8", "bench.seconds", "confirm.seconds")
    assert all(part in said for part in rounds)
    assert said.count("no time for more") == 2 and "confirm.step_seconds (3" in said
    assert all(part in said for part in ("nano trained 8 steps", "4 of 4 launches", "up to 20"))


def test_where_no_sidecar_tells_what_was_asked_for_that_is_said(run: Path) -> None:
    (run / "probes.sidecar.json").unlink()
    beside = run / "train/nano/steps.sidecar.json"
    record = json.loads(beside.read_text())
    beside.write_text(json.dumps(record | {"command": ["made", "up"]}))
    (said,) = shortfalls(Tree(path=run))
    assert said.startswith("It is not known") and "the probes, the training of nano" in said
