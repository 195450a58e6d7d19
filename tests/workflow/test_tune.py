"""`overlayccl tune` with real ranks: interrupted, gone on with, asked again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import yaml

from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.deployed import DEPLOYED
from overlayccl_core.tables.table import read
from tests.workflow.repository import copy_to, python
from tests.workflow.small import SMALL

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(900)]

COMMAND = ("-m", "overlayccl_core.cli.main", "tune", "--problem", "uniform_a2a", "--deployment", "local-2")
CASE = ("--case-json", '{"payload": "1KiB"}')
ID = "uniform_a2a/n2-1KiB-f32"
LITTLE = {
    "models": [],
    "probe": {**SMALL["probe"], "seconds": 2, "maximum_rounds": 2, "mixed": 10, "heldout": 5},
    "fit": {"bootstraps": 4},
    "bench": {"seconds": 2, "minimum_rounds": 6, "maximum_rounds": 8},
    "confirm": {**SMALL["confirm"], "seconds": 1},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which tuning measures little."""
    folder = copy_to(tmp_path_factory.mktemp("repository"))
    file = folder / "config" / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["presets"]["tune"] = LITTLE
    file.write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="module")
def interrupted(root: Path) -> str:
    """What is said after Ctrl-C in the first job."""
    words = [sys.executable, *COMMAND, *CASE, "-o", "sums.py"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        words, cwd=root, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stderr is not None
        said = list(_until(run.stderr, "selftest: begins"))
        os.killpg(run.pid, signal.SIGINT)
        said += list(run.stderr)
    assert run.returncode == 130, "".join(said)
    return "".join(said)


def _until(lines: Iterator[str], words: str) -> Iterator[str]:
    for line in lines:
        yield line
        if words in line:
            return


@pytest.fixture(scope="module")
def done(root: Path, interrupted: str) -> str:
    """What the same command prints when it has gone on to the end."""
    done = python(root, *COMMAND, *CASE, "-o", "sums.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_keeps_what_was_measured_and_says_the_command_that_goes_on(
    root: Path, interrupted: str
) -> None:
    last = interrupted.strip().splitlines()[-1]
    assert last.startswith("interrupted; ") and "overlayccl tune --problem uniform_a2a" in last
    assert "Traceback" not in interrupted
    assert list((root / "results").glob("local-2-tune-uniform_a2a-*/preset.yaml"))


def test_the_file_is_the_deployed_one_and_the_screen_has_the_ways_the_choice_and_the_lines(
    root: Path, done: str
) -> None:
    [tree] = (root / "results").glob("local-2-tune-uniform_a2a-*")
    assert (root / "sums.py").read_text() == (tree / "deploy" / "uniform_a2a.py").read_text()
    said = " ".join(done.split())
    assert f'uniform_a2a.connect("{ID}")' in said and said.endswith("sums.py: that file, for your script.")
    for part in (f"{ID}, forward: the bench", f"{ID}, backward: the bench", "x developer", "native", "exact"):
        assert part in said, part
    assert "chosen by the bench alone, in no training step" in said
    rows = read(DEPLOYED, tree / "deployed.parquet")
    assert rows["trained_in"].null_count() == rows.height == 2
    launches = read(CONFIRMED, tree / "confirmed.parquet").filter(pl.col("arm") == "deployed")["launch"]
    assert launches.n_unique() == 2
    assert (
        said.count("Timed again after the choice, in 2 fresh launches")
        == rows.filter((pl.col("arm") != "developer") | pl.col("instead").is_not_null()).height
    )
    module = python(root, "-c", "import sums; print(sums.cases())")
    assert ID in module.stdout, module.stderr


def test_asked_again_it_measures_nothing_and_prints_the_same(root: Path, done: str) -> None:
    again = python(root, *COMMAND, *CASE, "-o", "other.py")
    assert again.returncode == 0, again.stderr
    assert "bench" not in again.stderr and "probe" not in again.stderr
    assert (root / "other.py").read_text() == (root / "sums.py").read_text()
    assert f"{ID}, forward: the bench" in again.stdout
