"""The target `redeploy` on trees with made-up times: what one deployment chose, on another, both ways."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from overlayccl_core.tables.redeploy import REDEPLOYED, REGRET, Replayed
from overlayccl_core.tables.table import read
from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL

pytestmark = pytest.mark.timeout(1800)  # two minutes, if alone

TO = ("redeploy", "--config", "deployment=local-2", "source=local")
FOLDER = "results/local-2/redeploy"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which both deployments have chosen, and the choices of `local` were taken to `local-2`."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config/config.yaml"
    changed = {"problems": ["uniform_a2a"], "models": []}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL | changed))
    shutil.copy(root / "tests/workflow/made_up.py", root / "sitecustomize.py")
    refused = snakemake(root, "--profile", "local", *TO)
    (root / "refused.txt").write_text(refused.stdout + refused.stderr)
    assert refused.returncode == 1 and not (root / "results").exists()
    for words in (("all",), ("all", "--config", "deployment=local-2"), TO):
        done = snakemake(root, "--profile", "local", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    (root / "redeploy.txt").write_text(done.stdout + done.stderr)
    return root


def test_every_choice_is_replayed_timed_beside_ones_own_and_deployed(root: Path) -> None:
    rows = read(REDEPLOYED, root / FOLDER / "problems/uniform_a2a/redeployed.parquet")
    assert set(rows["tree"]) == {"local", "local-2"} and set(rows["outcome"]) == {Replayed.PROVEN}
    there = rows.filter(tree="local")
    assert all(case.startswith("uniform_a2a/n2-") for case in rows["case"])
    assert all(case.startswith("uniform_a2a/n4-") for case in there["source_case"])
    assert there["predicted_us"].null_count() == 0
    regret = read(REGRET, root / FOLDER / "regret.parquet")
    assert regret.height == there.height and regret["regret"].null_count() == 0
    assert (root / FOLDER / "deploy/uniform_a2a.py").is_file()
    assert "Regret of the choices of local on local-2" in (root / "redeploy.txt").read_text()
    assert "Redeployed, and the regret" in (root / FOLDER / "regret.html").read_text()


def test_what_was_chosen_knows_nothing_of_it_and_a_second_run_has_nothing_to_do(root: Path) -> None:
    for words in (
        TO,
        ("redeploy", "--config", "deployment=local-2"),
        ("all", "--config", "deployment=local-2"),
    ):
        done = snakemake(root, "--profile", "local", *words, "-n")
        assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "words", "said"),
    [
        ("local-8", ("source=elsewhere",), "elsewhere does not exist.*trees with choices: local, local-2"),
        ("local-2", ("source=local-2",), "own tree"),
        ("local-8", (), "--config source=NAME"),
    ],
)
def test_a_tree_without_a_choice_is_refused_in_one_line(
    root: Path, target: str, words: tuple[str, ...], said: str
) -> None:
    done = snakemake(root, "--profile", "local", "redeploy", "--config", f"deployment={target}", *words)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and len(errors) == 1 and re.search(said, errors[0]), done.stderr
    assert not (root / "results/local-8/redeploy").exists()


def test_the_command_runs_that_target_and_prints_its_end_both_ways(root: Path) -> None:
    """What is there already is printed without a job; without a run it replays alone, and writes nothing."""
    alone = redeploy(root, "--to", "local-8", "--no-measure")
    assert alone.returncode == 0 and "uniform_a2a/n8-" in alone.stdout, alone.stderr
    assert "nothing was fitted yet" in alone.stdout
    assert not list((root / "results").glob("local-8/*.parquet"))
    back = redeploy(root, "--deployment", "local-2", "--to", "local")
    assert back.returncode == 0, back.stderr
    started = (root / "started.txt").read_text()
    there = redeploy(root, "--to", "local-2")
    assert there.returncode == 0 and (root / "started.txt").read_text() == started
    for said in (back.stdout, there.stdout):
        assert "choices of local on local-2" in said and "choices of local-2 on local," in said


def redeploy(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "overlayccl_core.cli.main", "redeploy", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_before_anything_was_chosen_it_names_the_command(root: Path) -> None:
    said = (root / "refused.txt").read_text()
    assert re.search(r"error: --config source=local: results/local does not exist .*`snakemake .* all`", said)
