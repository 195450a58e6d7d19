"""Several runs side by side: the least and the largest of their figures, and the state of the machine in each."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.cli.main import main
from overlayccl_core.report.ranges import Range, fidelities, gains, range_of, state
from overlayccl_core.report.tree import trees_of
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.steps import CONFIRMED_STEPS, STEPS
from overlayccl_core.tables.table import read
from tests.report.fixture_rows import changed

CASE = "problems/tp_mlp/fidelity"


@pytest.fixture(scope="module")
def runs(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run that was disturbed while it trained; another in which developer was slower and the model worse."""
    other = tmp_path_factory.mktemp("other") / "quiet"
    shutil.copytree(whole, other)
    worse = {"median_rel_error": 0.5, "top1_regret": 0.285, "top1_within_noise": False}
    changed(other, FIDELITY, CASE, lambda f: f.with_columns(**{k: pl.lit(v) for k, v in worse.items()}))
    twice = [
        pl.when(pl.col("arm") == "developer").then(2 * pl.col(name)).otherwise(pl.col(name)).alias(name)
        for name in ("step_us", "deployed_speedup", "deployed_speedup_low", "deployed_speedup_high")
    ]
    changed(other, SPLITS, "splits", lambda f: f.with_columns(twice))
    for table, name in ((STEPS, "train/nano/steps"), (CONFIRMED_STEPS, "confirmed_steps")):
        changed(other, table, name, lambda f: f.with_columns(disturbed=pl.lit(False)))
    return whole, other


def test_a_range_is_the_least_and_the_largest_of_what_is_known() -> None:
    assert range_of([0.3, None, 0.1]) == Range(low=0.1, high=0.3)
    assert range_of([None]) is None


def test_the_models_figures_are_ranges_over_the_runs(runs: tuple[Path, Path]) -> None:
    once = {(one.problem, one.case, one.direction): one for one in fidelities(trees_of(runs[:1]))}
    both = {(one.problem, one.case, one.direction): one for one in fidelities(trees_of(runs))}
    assert next(iter(both)) == (None, None, None) and both.keys() == once.keys()
    assert ("tp_mlp", None, None) in both
    for place, one in both.items():
        before = once[place]
        assert (before.runs, one.runs) == (1, 2) and before.error.low == before.error.high == one.error.low
        if one.problem is not None:
            assert one.error.high == 0.5 and one.beyond_noise == before.beyond_noise + 1
            assert one.regret is not None and one.regret.high == 0.285


def test_what_is_deployed_is_worth_something_in_each_run(runs: tuple[Path, Path]) -> None:
    first, second = gains(trees_of(runs))["nano"]
    assert first.over_developer and second.over_developer and first.best_other == "best known way at M = 1"
    assert second.over_developer.value == pytest.approx(2 * first.over_developer.value)
    assert first.over_best is not None and first.over_best == second.over_best


def test_a_case_that_no_model_trains_has_what_its_passes_say(runs: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(runs[0], here := tmp_path / "here")
    changed(here, DEPLOYED, "deployed", lambda f: f.head(1).with_columns(trained_in=None))
    row = read(DEPLOYED, here / "deployed.parquet").row(0, named=True)
    (gain,) = gains(trees_of([here]))[f"{row['case']} {row['direction']}".removesuffix(" forward")]
    assert gain.over_best is not None and gain.over_best.value == row["gain"]
    assert gain.over_developer is None  # single calls are no baseline of a pass


def test_the_state_of_the_machine_is_that_of_all_that_was_measured(runs: tuple[Path, Path]) -> None:
    disturbed, quiet = (state(tree) for tree in trees_of(runs))
    assert (disturbed.disturbed, quiet.disturbed) == (
        ("training steps, by which was chosen", "steps that confirm the choice"),
        (),
    )
    assert disturbed.foreign_cpu_share == 0.02 and len(disturbed.fingerprints) == 1


def test_one_command_prints_them(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *map(str, runs)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "held-out",
        "28.5%",
        "50.0%",
        "training steps",
        "nano",
        "all 2",
        "host test",
    ):
        assert part in text


def test_a_run_that_is_given_twice_gives_one_message(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(whole), str(whole / ".." / "local")]) == 2
    assert "every run is given once" in capsys.readouterr().err
