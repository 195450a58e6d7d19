"""A finished run: what its jobs took beside what the settings that they had gave them."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from overlayccl_core.estimates.actual import compared, cost_of_tree, node_of
from overlayccl_core.report.tree import Tree
from overlayccl_core.rule import BATCH_S, GRADIENTS_S, LAUNCH_S, LOSSES_S
from overlayccl_core.tables.sidecar import path_of, write_sidecar
from tests.estimates.test_plan import ON_RANKS
from tests.report.fixture_rows import settings
from tests.report.fixture_tree import write_files


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Durations of a run's jobs, and names of tables: nothing here reads one."""
    folder = tmp_path / "local"
    for table in ("problems/tp_mlp/bench", "train/nano/steps"):
        (folder / table).parent.mkdir(parents=True)
        (folder / f"{table}.parquet").touch()
    write_files(folder, ("tp_mlp",), ("nano",))
    return Tree(path=folder)


def ran(tree: Tree, table: str, *words: str) -> None:
    """Let a table's sidecar tell how it was made."""
    path, now = tree.path / f"{table}.parquet", datetime.now(UTC)
    path.touch()
    write_sidecar(path, inputs=[], command=["python", *words], started=now, ended=now)


def test_jobs_on_ranks_stand_beside_what_their_own_settings_gave_them(tree: Tree) -> None:
    given, cost = settings(), cost_of_tree(tree)
    ran(tree, "probes", "--settings", given.part("probe"))
    ran(tree, "problems/tp_mlp/bench", "--settings", given.part("bench"))
    ran(tree, "train/nano/steps", "--settings", given.part("train"))
    ran(tree, "confirmed", "--settings", given.part("confirm"))
    rows = {row.job: row for row in compared(tree, cost)}
    assert [job.split()[0] for job in rows] == ON_RANKS
    assert rows["probe"].expected_s == given.probe.seconds + BATCH_S
    assert rows["bench tp_mlp"].expected_s == given.bench.seconds + BATCH_S
    assert rows["train nano"].expected_s == (
        given.train.launches * (given.train.seconds + LAUNCH_S) + GRADIENTS_S + LOSSES_S
    )
    took = {phase.name: phase.seconds for phase in tree.phases}
    assert rows["bench tp_mlp"].actual_s == took["bench-tp_mlp"]


def test_a_job_whose_settings_are_not_known_is_told_without_an_expectation(tree: Tree) -> None:
    assert {row.job: row.expected_s for row in compared(tree, cost_of_tree(tree))}["probe"] is None


def test_the_node_is_that_of_the_deployments_file_that_the_jobs_named(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "boxes.yaml").write_text(
        "backend: torchdist\nlibrary: any\nnode: box\nranks: 4\nmemory_budget: 1GiB\n"
    )
    ran(tree, "probes", "--deployment", "boxes.yaml")
    assert node_of(tree, tmp_path) == "box"
    ran(tree, "probes", "--deployment", "gone.yaml")
    assert node_of(tree, tmp_path) == ""
    path_of(tree.path / "probes.parquet").unlink()
    assert node_of(tree, tmp_path) == ""


def test_a_tree_without_durations_is_refused_with_the_command(tree: Tree) -> None:
    shutil.rmtree(tree.path / "logs")
    with pytest.raises(ValueError, match=r"no job has left a duration in .*logs: run snakemake --profile"):
        cost_of_tree(tree)


def test_a_second_round_without_a_duration_is_missed_and_so_is_the_trial_before_it(tree: Tree) -> None:
    found = tree.path / "problems/tp_mlp/search/command-repair1/candidates.parquet"
    found.parent.mkdir(parents=True)
    found.touch()
    searching = {job for job in cost_of_tree(tree).unknown if job.startswith(("search", "trial"))}
    assert searching == {"search-tp_mlp-command-repair1", "trial-tp_mlp-command"}
