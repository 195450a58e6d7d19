"""What a run cost, when that is paid back, and where it got less than was asked for."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.cli.summary import spent_text
from overlayccl_core.configuration.deployment import Tier, load
from overlayccl_core.probes.mixed import mixed_probes
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.report import deployed as deployed_part
from overlayccl_core.report import spending
from overlayccl_core.report.blocks import Block, TableBlock, Text, duration
from overlayccl_core.report.payback import Cost, Payback, cost_of, payback
from overlayccl_core.report.shortfalls import shortfalls
from overlayccl_core.report.tree import JobTime, Tree
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from tests.fake_timings import timing_columns
from tests.report.fixture_rows import REPOSITORY, put, settings
from tests.report.fixture_tree import write_tree
from tests.report.test_worth import beside, deployed, rival, worth
from tests.rows import row

COST = Cost(jobs=(JobTime(name="probe", seconds=30.0), JobTime(name="fit", seconds=6.0)), nodes=3, unknown=())


def table(blocks: Sequence[Block], title: str) -> dict[str, tuple[str, ...]]:
    """The rows of the table whose title begins so, by their first cell."""
    (titled,) = (b for b in blocks if isinstance(b, TableBlock) and b.title.startswith(title))
    return {row[0]: row[1:] for row in titled.rows}


def texts(blocks: Sequence[Block]) -> str:
    return " ".join(b.text for b in blocks if isinstance(b, Text))


# ---------------------------------------------------------------------------------------------- what it took
def test_break_even_is_the_runs_seconds_over_what_a_step_saves() -> None:
    told = worth(deployed(), rival(2, "hand_bundled", 7.0, 6.9, 7.1))
    paid = payback(told, told.rival, COST)
    assert (paid.saved_us, paid.steps) == (6e5, 60)


@pytest.mark.parametrize("gain", [(0.9, 0.85, 0.95), (1.0, 0.97, 1.03), (1.3, 1.0, 1.6), (1.3,)])
def test_what_is_not_faster_beyond_noise_pays_nothing_back(gain: tuple[float, ...]) -> None:
    told = worth(deployed(), rival(2, "hand_bundled", *gain))
    assert payback(told, told.rival, COST) == Payback(saved_us=None, steps=None)


def test_what_is_deployed_saves_nothing_over_its_own_programs() -> None:
    mine = deployed(ran_as="developer", needs_search=False)
    told = worth(mine, beside(2, "developer", 1.2, 1.1, 1.3), chosen="developer")
    assert payback(told, told.developer, COST).saved_us is None


def test_a_job_that_measures_holds_every_node() -> None:
    assert [COST.node_seconds(job) for job in COST.jobs] == [90.0, 6.0]


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
    assert rows["probe"] == ("171", "342") and rows["search, 1 job"] == ("13", "13")


def test_a_whole_run_tells_cold_and_steady_steps_and_its_break_even(whole: Path) -> None:
    rows = table(spending.blocks(Tree(path=whole)), "After how many")
    developer, mine, over_developer, over_rival = rows["nano: the chosen file at M = 1"]
    assert developer == "336 ms, then 168 ms" and mine == "244 ms, then 122 ms"
    # 9 + 171.2 + 4.4 + 7 x 1.1 + 52.9 + 13 + 205 + 172 s, without summary and report, over about 0.046 s a step
    assert 13_500 < int(over_developer.split()[0].replace(",", "")) < 14_500
    assert "(developer at M = 1)" in over_developer and "best known way at M = 1" in over_rival
    assert table(spending.blocks(Tree(path=whole)), "What was spent")["together"] == ("635", "635")


def test_where_developers_calls_stay_nothing_is_paid_back_over_them(tmp_path: Path) -> None:
    tree = Tree(path=write_tree(tmp_path / "local", chosen="developer", problems=("tp_mlp",), data=False))
    ((_, _, over_developer, _),) = table(spending.blocks(tree), "After how many").values()
    assert "it is what is deployed (" in over_developer
    (said,) = spent_text(tree)
    assert "10.6 minutes" in said and "nano - over developer" in said


def test_where_a_job_left_no_duration_no_break_even_is_told(run: Path) -> None:
    (run / "logs/bench-tp_mlp.tsv").unlink()
    blocks = spending.blocks(Tree(path=run))
    assert "bench-tp_mlp left no" in texts(blocks)
    assert "saves 4" in table(blocks, "After how many")["nano: the chosen file at M = 1"][2]
    assert list(spent_text(Tree(path=run))) == []


def test_the_summary_tells_the_break_even_of_each_model_over_both(whole: Path, tmp_path: Path) -> None:
    (said,) = spent_text(Tree(path=whole))
    assert "10.6 minutes" in said
    ((over_developer, over_rival),) = re.findall(r"nano ([\d,]+) over developer.* ([\d,]+) over best", said)
    assert 4 * int(over_developer.replace(",", "")) < int(over_rival.replace(",", ""))
    slower = write_tree(tmp_path / "local", problems=("grad_ar",))
    assert "nano-dp" not in next(spent_text(Tree(path=slower)))  # torch's own is to be kept


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
    assert said.count("no time for more") == 2 and "confirm.step_seconds (5" in said
    assert all(part in said for part in ("nano trained 8 steps", "4 of 4 launches", "up to 20"))


def test_where_no_sidecar_tells_what_was_asked_for_that_is_said(run: Path) -> None:
    (run / "probes.sidecar.json").unlink()
    beside = run / "train/nano/steps.sidecar.json"
    record = json.loads(beside.read_text())
    beside.write_text(json.dumps(record | {"command": ["made", "up"]}))
    (said,) = shortfalls(Tree(path=run))
    assert said.startswith("It is not known") and "the probes, the training of nano" in said
