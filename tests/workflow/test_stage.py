"""What the runner of all stages does beside their work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from overlayccl_core import loader
from overlayccl_core.backends import backend
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.rule import rules
from overlayccl_core.tables import attempts, records
from overlayccl_core.tables.page import TABLES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import KEY_DIGITS, forget
from tests.workflow.repository import ROOT
from workflow_scripts import following, one_run, stage

QUICK_S = 30.0
HERE = Path("results/local")
STAGE = """
import os
import time
from pathlib import Path
def main(job):
    Path("working.pid").write_text(str(os.getpid()))
    Path("working.pid").rename("working")
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        time.sleep(0.05)
    job.all_outputs[0].write_text("made")
"""


def start(root: Path, *arguments: str, seconds: float, **told: str) -> "subprocess.Popen[str]":
    """A job of a rule whose stage, a plug-in, works for some seconds."""
    (root / HERE).mkdir(parents=True, exist_ok=True)
    stages = root / "own/stages"
    stages.mkdir(parents=True, exist_ok=True)
    (stages / "tiny.py").write_text(STAGE.format(seconds=seconds))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OVERLAYCCL_")}
    outputs = ("--outputs", f"made={HERE / 'made.txt'}")
    return subprocess.Popen(
        [sys.executable, "-m", stage.__name__, "tiny", *outputs, "--log", "tiny.log", *arguments],
        cwd=root,
        env={**environment, "PYTHONPATH": str(ROOT), loader.VARIABLE: str(root / "own"), **told},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(job: "subprocess.Popen[str]") -> tuple[int, str]:
    said = job.communicate(timeout=QUICK_S)[1]
    return job.returncode, said


def test_a_rules_command_ends_when_its_run_is_gone(tmp_path: Path) -> None:
    run = tmp_path / "local.run"
    run.write_text(json.dumps({"run": "mine"}))
    job = start(tmp_path, seconds=15.0, **{following.RUN: f"{run}:mine"})
    end = time.monotonic() + QUICK_S
    while not (tmp_path / "working").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    run.write_text(json.dumps({"run": "of another"}))
    assert ended(job)[0] == 130
    said = (tmp_path / "tiny.log").read_text()
    assert "is gone: ending" in said and "so far is kept" in said
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
    code, said = ended(start(tmp_path, "--inputs", f"read={HERE / 'read.txt'}", seconds=0.0))
    assert code == 0, said
    assert ("1 files of results/local" in said) is (ahead_s > 0)
    assert time.time() >= read.stat().st_mtime >= dated - 3601 and made.read_text() == "made"
    assert read.stat().st_mtime == (
        pytest.approx(dated) if ahead_s < 0 else pytest.approx(time.time(), abs=60)
    )


def test_a_rules_command_that_may_not_measure_here_does_nothing(tmp_path: Path) -> None:
    why = {"OVERLAYCCL_ELSEWHERE": "results/local was measured on another machine"}
    code, said = ended(start(tmp_path, "--partial", "p", seconds=0.0, **why))
    assert code == 1 and f"ERROR: {why['OVERLAYCCL_ELSEWHERE']}" in said
    assert not (tmp_path / "working").exists()
    assert ended(start(tmp_path, seconds=0.0, **why))[0] == 0


def test_a_rules_command_notes_what_attempts_took_that_left_no_tables(tmp_path: Path) -> None:
    why = {"OVERLAYCCL_ELSEWHERE": "results/local was measured on another machine"}
    assert ended(start(tmp_path, "--partial", "p", seconds=0.0, **why))[0] == 1
    assert ended(start(tmp_path, seconds=0.0))[0] == 0
    failed, made = attempts.read(tmp_path / f"tiny{attempts.SUFFIX}")
    assert (failed.how, made.how) == (attempts.ENDED, attempts.MADE) and made.seconds >= 0.0
    assert failed.seconds >= 0.0 and failed.began <= made.began


def test_a_job_begins_with_its_process_and_not_when_its_imports_are_done(tmp_path: Path) -> None:
    spawned = time.time()
    assert ended(start(tmp_path, seconds=0.0))[0] == 0
    (made,) = attempts.read(tmp_path / f"tiny{attempts.SUFFIX}")
    assert spawned - 0.02 <= made.began <= spawned + 0.1


SNAKEFILE = f"""
rule tiny:
    output: "{HERE / "made.txt"}"
    log: "logs/tiny.log"
    shell: "{sys.executable} -m {stage.__name__} tiny --outputs made={{output}} --log {{log}}"
"""


def test_a_job_that_was_killed_took_until_its_last_sign_of_life(tmp_path: Path) -> None:
    """Under Snakemake, which removes the log before it runs the job again."""
    (tmp_path / "own/stages").mkdir(parents=True)
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    run, noted = tmp_path / "local.run", tmp_path / f"logs/tiny{attempts.SUFFIX}"
    run.write_text(json.dumps({"run": "mine"}))
    told = {"PYTHONPATH": str(ROOT), loader.VARIABLE: str(tmp_path / "own"), following.RUN: f"{run}:mine"}

    def begin(seconds: float) -> "subprocess.Popen[str]":
        (tmp_path / "own/stages/tiny.py").write_text(STAGE.format(seconds=seconds))
        command = (sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-incomplete")
        return subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, **told}, stderr=subprocess.PIPE, text=True
        )

    first, end = begin(60.0), time.monotonic() + QUICK_S
    while not (noted.exists() and noted.stat().st_mtime > attempts.read(noted)[0].began + 1.5):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(int((tmp_path / "working").read_text()), signal.SIGKILL)
    assert ended(first)[0] == 1
    code, said = ended(begin(0.0))
    assert code == 0, said
    killed, made = attempts.read(noted)
    assert 1.5 < killed.seconds < QUICK_S and made.how == attempts.MADE


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
MEASURE = {  # rule: the options that its stage reads beside those of all, what its batches are called
    "selftest": ("payload", "selftest"),
    "probe": ("settings", "probe"),
    "bench": ("settings problem", "bench-tp_mlp"),
    "segments": ("model", "segments-nano"),
    "train": ("settings model problems", "train-nano"),
    "longtrain": ("settings model problems", "longtrain-nano-developer-0"),
    "confirm": ("settings problems models", "confirm-values"),
    "trial": ("problem search", "trial-tp_mlp-offline"),
    "time_probes": ("settings", "time_probes"),
    "time_scopes": ("settings", "time_scopes"),
    "time_parts": ("settings model", "decompose-nano"),
    "time_ways": ("settings", "time_ways"),
    "time_payloads": ("settings", "time_payloads-0"),
    "train_splits": ("settings model problems", "train_splits-nano"),
    "reprobe": ("settings tree", "reprobe"),
    "ask_probes": ("search settings answers tree", "ask_probes"),
}


class Unfit(list[dict[str, Any]]):
    """Rows that fit no table: of a stage with one table, and of each table of one with several."""

    def __getitem__(self, name: Any) -> Any:
        return self if isinstance(name, str) else super().__getitem__(name)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("rule", MEASURE)
def test_launches_are_put_away_when_their_table_is_written_and_stay_where_it_cannot_be(
    rule: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage itself, whose run gives rows that fit no table."""
    options, name = MEASURE[rule]
    of = loader.load("stages", rule)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(following.RUN, raising=False)
    monkeypatch.setattr(of, "run", lambda *_, **__: Unfit([{"arm": "developer", "seed": 0}]))
    monkeypatch.setattr(backend, "begin_starter", begun := MagicMock())
    for owner, reading in (
        *((RuleJob, one) for one in ("read", "read_all")),
        *((Settings, "from_part"), (Search, "from_json")),
        *((of, one) for one in ("load_model", "choices_of") if hasattr(of, one)),
    ):
        monkeypatch.setattr(owner, reading, MagicMock())
    if written:
        monkeypatch.setattr(RuleJob, "write", MagicMock())
    batch = Path(OPTIONS["partial"]) / f"{name}-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.0.json").touch()
    given = ("deployment", "partial", "code", *options.split())
    words = [word for option in given for word in (f"--{option}", OPTIONS[option])]
    outputs = [f"{one.name}={HERE / f'{one.name}.parquet'}" for one in TABLES if one.rule == rule]
    assert stage.main([rule, "--log", "log", "--outputs", *outputs, *words]) is not written
    begun.assert_called_once()  # before its ranks are asked for
    assert batch.exists() is not written
    assert (batch.parent / "written" / batch.name).exists() is written
    assert written or "ERROR: " in Path("log").read_text()


def test_every_stage_that_measures_puts_its_launches_away() -> None:
    own = {name for name, rule in rules().items() if rule.measures and not rule.like}
    assert own == set(MEASURE)
    for name in MEASURE:
        assert "forget(job.partial, " in (ROOT / f"overlayccl_core/stages/{name}.py").read_text()


@pytest.mark.parametrize("recorded", [True, False])
def test_what_a_killed_run_had_put_away_is_settled_when_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """Its launches are there again where Snakemake has not recorded their table, and gone for good where it has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(following.RUN, "")
    partial, table = HERE / ".partial", HERE / "bench.parquet"
    batch = partial / f"bench-tp_mlp-{'0f' * (KEY_DIGITS // 2)}"
    batch.mkdir(parents=True)
    (batch / "launch-0.0.json").touch()
    table.touch()
    if not recorded:
        marker = records.INCOMPLETE / records.record_path(table).name
        marker.parent.mkdir(parents=True)
        marker.touch()
    forget(partial, "bench-tp_mlp", [table])
    assert (partial / "written" / batch.name).exists()
    one_run.begin("local", pytest.fail)
    assert [file.name for file in partial.rglob("launch-*")] == ([] if recorded else ["launch-0.0.json"])
    assert batch.exists() is not recorded and not (partial / "written").exists()
