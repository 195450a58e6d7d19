"""What the commands of all rules do beside their work, through the function that runs each script's `main`."""

import json
import os
import runpy
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from overlayccl_core.backends.partial import KEY_DIGITS, forget
from overlayccl_core.configuration import models
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.stages import (
    ask_probes,
    bench,
    confirm,
    longtrain,
    probe,
    selftest,
    time_probes,
    train,
    trial,
)
from overlayccl_core.tables import records
from tests.workflow.repository import ROOT
from workflow_scripts import command, decided, one_run

QUICK_S = 30.0
HERE = Path("results/local")
SCRIPT = """
import time
from pathlib import Path
from workflow_scripts.command import run
def main(command):
    Path("working").touch()
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        time.sleep(0.05)
    command.outputs[0].write_text("made")
run("tiny", main{options})
"""


def start(
    root: Path, *arguments: str, seconds: float, options: str = "", **told: str
) -> "subprocess.Popen[str]":
    """A job of a rule whose command works for some seconds."""
    (root / "tiny.py").write_text(SCRIPT.format(seconds=seconds, options=options))
    (root / HERE).mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OVERLAYCCL_")}
    return subprocess.Popen(
        [sys.executable, "tiny.py", "--outputs", str(HERE / "made.txt"), "--log", "tiny.log", *arguments],
        cwd=root,
        env={**environment, "PYTHONPATH": str(ROOT), **told},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(job: "subprocess.Popen[str]") -> tuple[int, str]:
    said = job.communicate(timeout=QUICK_S)[1]
    return job.returncode, said


def test_a_rules_command_ends_when_its_run_is_gone(tmp_path: Path) -> None:
    run = tmp_path / "local.run"
    run.write_text(json.dumps({"run": "mine"}))
    job = start(tmp_path, seconds=15.0, **{one_run.RUN: f"{run}:mine"})
    end = time.monotonic() + QUICK_S
    while not (tmp_path / "working").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    run.write_text(json.dumps({"run": "of another"}))
    assert ended(job)[0] == 130
    said = (tmp_path / "tiny.log").read_text()
    assert "the run that began this is gone: ending" in said and "what was measured so far is kept" in said
    assert not (tmp_path / HERE / "made.txt").exists()


@pytest.mark.parametrize("ahead_s", [3600.0, -10.0])
def test_after_a_clock_was_set_back_what_a_rules_command_read_is_older_than_what_it_wrote(
    tmp_path: Path, ahead_s: float
) -> None:
    read, made = tmp_path / HERE / "read.txt", tmp_path / HERE / "made.txt"
    read.parent.mkdir(parents=True)
    read.touch()
    dated = time.time() + ahead_s
    os.utime(read, (dated, dated))
    code, said = ended(start(tmp_path, "--inputs", str(HERE / "read.txt"), seconds=0.0))
    assert code == 0, said
    assert ("the clock was set back: 1 files of results/local" in said) is (ahead_s > 0)
    assert time.time() >= read.stat().st_mtime >= dated - 3601 and made.read_text() == "made"
    assert read.stat().st_mtime == (
        pytest.approx(dated) if ahead_s < 0 else pytest.approx(time.time(), abs=60)
    )


def test_a_rules_command_that_may_not_measure_here_does_nothing(tmp_path: Path) -> None:
    why = {"OVERLAYCCL_ELSEWHERE": "results/local was measured on another machine"}
    code, said = ended(start(tmp_path, "--partial", "p", seconds=0.0, options=', "partial"', **why))
    assert code == 1 and "ERROR: results/local was measured on another machine" in said
    assert not (tmp_path / "working").exists()
    assert ended(start(tmp_path, seconds=0.0, **why))[0] == 0


DEPLOYMENT = str(ROOT / "config/deployments/local-2.yaml")
OPTIONS = {
    "deployment": DEPLOYMENT,
    "settings": "settings",
    "search": "offline",
    "problem": "tp_mlp",
    "problems": "tp_mlp",
    "model": "nano",
    "models": '["nano"]',
    "answers": "answers",
    "tree": "local",
    "code": "code",
    "payload": "1",
    "partial": str(HERE / ".partial"),
}
MEASURE = {  # script: its stage, its options beside those of all, what its batches are called
    "selftest": (selftest, "payload", "selftest"),
    "probe": (probe, "settings", "probe"),
    "bench": (bench, "settings problem", "bench-tp_mlp"),
    "train": (train, "settings model problems", "train-nano"),
    "longtrain": (longtrain, "settings model problems", "longtrain-nano-developer-0"),
    "confirm": (confirm, "settings problems models", "confirm-values"),
    "trial": (trial, "problem search", "trial-tp_mlp-offline"),
    "time_probes": (time_probes, "settings", "time_probes"),
    "ask_probes": (ask_probes, "search settings answers tree", "ask_probes"),
}

TABLES = (
    *("selftest", "capabilities", "probes", "bench", "steps", "stamps", "trials"),
    *("confirmed", "confirmed_steps", "confirmed_stamps", "long_steps", "long_stamps"),
    *("compared_probes", "asked_probes", "chosen_probes", "probe_calls"),
)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("script", MEASURE)
def test_launches_are_put_away_when_their_table_is_written_and_stay_where_it_cannot_be(
    script: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script itself, whose stage gives rows that fit no table."""
    stage, options, name = MEASURE[script]
    rows = [{"arm": "developer", "seed": 0}]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(one_run.RUN, raising=False)
    monkeypatch.setattr(stage, "run", lambda *_, **__: defaultdict(lambda: rows))
    for owner, reading in (
        *((command.Command, one) for one in ("read", "read_all")),
        *((Settings, "from_part"), (Search, "from_json"), (models, "load"), (decided, "decided")),
    ):
        monkeypatch.setattr(owner, reading, MagicMock())
    if written:
        monkeypatch.setattr(command.Command, "write", MagicMock())
    batch = Path(OPTIONS["partial"]) / f"{name}-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.parquet").touch()
    given = ("deployment", "partial", "code", *options.split())
    words = [word for option in given for word in (f"--{option}", OPTIONS[option])]
    outputs = [str(HERE / f"{table}.parquet") for table in TABLES]
    monkeypatch.setattr(sys, "argv", [script, "--log", "log", "--outputs", *outputs, *words])
    monkeypatch.delitem(sys.modules, f"workflow_scripts.{script}", raising=False)
    with nullcontext() if written else pytest.raises(SystemExit):
        runpy.run_module(f"workflow_scripts.{script}", run_name="__main__")
    assert batch.exists() is not written
    assert (batch.parent / "written" / batch.name).exists() is written
    assert written or "ERROR: " in Path("log").read_text()


def test_every_script_that_puts_launches_away_is_among_them() -> None:
    scripts = (ROOT / "workflow_scripts").glob("*.py")
    assert {script.stem for script in scripts if "import forget" in script.read_text()} == set(MEASURE)


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_killed_run_had_put_away_is_settled_when_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """Its launches are there again where Snakemake has not recorded their table, and gone for good where it has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(one_run.RUN, "")
    partial, table = HERE / ".partial", HERE / "bench.parquet"
    batch = partial / f"bench-tp_mlp-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.parquet").touch()
    table.touch()
    if not recorded:
        marker = records.INCOMPLETE / records.place_of(table).name
        marker.parent.mkdir(parents=True)
        marker.touch()
    forget(partial, "bench-tp_mlp", [table])
    assert (partial / "written" / batch.name).exists()
    one_run.begin("local", pytest.fail)
    assert [file.name for file in partial.rglob("*.parquet")] == ([] if recorded else ["launch-0.parquet"])
    assert batch.exists() is not recorded and not (partial / "written").exists()
