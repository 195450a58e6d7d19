"""The target `probing` on a tree with made-up times: a script chooses probes, in a folder of its own."""

import json
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from overlayccl_core.tables.probing import ASKED_PROBES, COMPARED_PROBES, PROBING
from overlayccl_core.tables.table import read
from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL, TINY

pytestmark = pytest.mark.timeout(1800)  # a minute, if alone

CONFIG = {"models": [], "probing": {"turns": 6, "probes": 80, "seconds": 1000, "draws": 2}}
ASK = ("--config", "proposer=command")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which the target was run."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    file = root / "config/config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | SMALL | CONFIG))
    (root / "config/models/tiny.yaml").write_text(yaml.safe_dump(TINY))
    search = root / "config/searches/command.yaml"
    fields = yaml.safe_load(search.read_text()) | {"command": f"{sys.executable} examples/answer.py"}
    search.write_text(yaml.safe_dump(fields))
    shutil.copy(root / "tests/workflow/made_up.py", root / "sitecustomize.py")
    done = snakemake(root, "--profile", "local", "probing", *ASK)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_it_leaves_tables_and_a_page_in_a_folder_of_its_own(root: Path) -> None:
    results = root / "results/local"
    folder = results / "probing"
    rows = read(PROBING, folder / "probing.parquet")
    assert rows["arm"].to_list() == ["fixed", "agent"] + ["fixed_equal_cost"] * 2
    assert rows.filter(arm="agent")["made_by"].to_list() == [["scripted"]]
    asked = read(ASKED_PROBES, folder / "command/asked_probes.parquet")
    assert asked["message"][-1] == "it called finish"
    compared = read(COMPARED_PROBES, folder / "compared_probes.parquet")
    assert compared.filter(pl.col("chosen_by").list.len() > 0).height == rows.filter(arm="agent")["probes"][0]
    assert "nothing about models" in (folder / "probing.html").read_text()
    assert {p.name for p in results.glob("*.parquet")} == {"selftest.parquet", "capabilities.parquet"}
    assert len(list((folder / "command/answers").glob("*.json"))) == 5
    started = (root / "started.txt").read_text().split()
    assert started == ["selftest", "ask_probes", "time_probes", "weigh_probes", "probing_page"]


def test_a_second_run_has_nothing_to_do_and_answers_are_not_asked_again(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "probing", *ASK, "-n")
    assert "Nothing to be done" in done.stdout + done.stderr
    folder = root / "results/local/probing/command"
    (folder / "asked_probes.parquet").unlink()
    before = {path: path.stat().st_mtime_ns for path in (folder / "answers").iterdir()}
    done = snakemake(root, "--profile", "local", "probing", *ASK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path: path.stat().st_mtime_ns for path in (folder / "answers").iterdir()} == before


def test_what_all_runs_knows_nothing_of_it(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "all", "-n")
    planned = done.stdout + done.stderr
    assert done.returncode == 0 and "Timing probe Programs" in planned
    assert not [word for word in ("ask_probes", "time_probes", "local/probing") if word in planned]


def test_without_anybody_to_ask_it_says_so_before_any_job(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "probing", "-n")
    assert done.returncode != 0
    assert all(part in done.stderr for part in ("error: probing: ", "`searches`", "proposer=claude"))


def test_the_budget_is_a_parameter_of_the_conversation(root: Path) -> None:
    more = {"probing": CONFIG["probing"] | {"turns": 1}}  # type: ignore[operator]
    (root / "more.yaml").write_text(json.dumps(more))
    done = snakemake(root, "--profile", "local", "probing", "-n", "--configfile", "more.yaml", *ASK)
    planned = done.stdout + done.stderr
    assert "Letting command choose" in planned, planned
