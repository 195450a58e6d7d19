"""What people see of a run: a line for each running job, the time left, a line every 30 seconds in a log."""

import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from overlayccl_core.measuring.progress import ProgressStep, tell
from overlayccl_core.rule import ANY_OTHER_S, BATCH_S
from overlayccl_core.tables import attempts
from run_display.board import Board, Running, last_words
from run_display.expected import Expectations, budget_s
from run_display.handler import KEPT, KILLED, RunHandler
from run_display.screen import LogScreen
from tests.took import took
from workflow_scripts.progress import SHOWN_BY_SNAKEMAKE, Progress, progress_file

SETTINGS = SimpleNamespace(
    probe=SimpleNamespace(seconds=180.0),
    bench=SimpleNamespace(seconds=100.0),
    train=SimpleNamespace(launches=5, seconds=20.0),
)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rule(SimpleNamespace):
    """A rule of Snakemake, as far as it is looked at."""


def job(rule: str, problem: str, folder: Path) -> Any:
    measuring = rule in ("bench", "train")
    named = Rule(
        name=rule,
        resources={"machine": 1} if measuring else {},
        log=[f"{folder}/{rule}-{{problem}}.log"],
    )
    return SimpleNamespace(rule=named, wildcards_dict={"problem": problem}, is_norun=False)


def log_of(job: Any) -> Path:
    return Path(job.rule.log[0].format(**job.wildcards_dict))


def expectations(folder: Path, jobs: list[Any], finished: list[Any]) -> Expectations:
    dag = SimpleNamespace(_needrun=set(map(_Hashed, jobs)), finished=lambda one: one.job in finished)
    return Expectations(SimpleNamespace(dag=dag, cores=2), SETTINGS)


class _Hashed:
    def __init__(self, job: Any) -> None:
        self.job = job

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)


def test_time_left_is_of_the_last_run_and_without_one_of_the_budgets(tmp_path: Path) -> None:
    jobs = [job("bench", "a", tmp_path), job("bench", "b", tmp_path), job("price", "a", tmp_path)]
    took(log_of(jobs[0]), 60.0)
    planned = {one.name: one for one in expectations(tmp_path, jobs, []).left()}
    assert (planned["bench a"].expected_s, planned["bench a"].share) == (60.0, 1.0)
    assert planned["bench b"].expected_s == 100.0 + BATCH_S
    assert (planned["price a"].expected_s, planned["price a"].share) == (ANY_OTHER_S, 0.5)
    assert budget_s("train", SETTINGS) > 5 * 20.0


def test_the_time_of_the_last_run_is_remembered_when_its_file_is_written_anew(tmp_path: Path) -> None:
    jobs = [job("bench", "a", tmp_path)]
    took(log_of(jobs[0]), 60.0)
    expected = expectations(tmp_path, jobs, [])
    assert expected.left()[0].expected_s == 60.0
    took(log_of(jobs[0]), 1.0)
    assert expected.left()[0].expected_s == 60.0


def test_each_running_job_has_a_line_and_all_have_one(tmp_path: Path) -> None:
    clock, log = Clock(), tmp_path / "bench-a.log"
    jobs = [job("bench", "a", tmp_path), job("bench", "b", tmp_path), job("fit", "", tmp_path)]
    board = Board(expectations=expectations(tmp_path, jobs, [jobs[2]]), clock=clock)
    board.done, board.total = 1, 3
    fields = {"jobid": 7, "rule_name": "bench", "log": [str(log)]}
    board.start(fields, "bench a")
    clock.now += 15.0
    (line, total) = board.lines()
    assert line.split() == ["bench", "a", "0:15", "working", "about", "2", "min", "left"]
    Progress("bench", log)("starting ranks")
    assert board.lines()[0].split()[-5:] == ["2", "min", "left", "starting", "ranks"]
    assert all(part in total for part in ("1 of 3", "0:15", "4 min"))  # 100 s of a, 115 s of b behind it
    step = ProgressStep(phase="timing", unit="round", done=3, total=20, left_s=40.0)
    progress_file(log).write_text(json.dumps({f: getattr(step, f) for f in ProgressStep.__slots__}))
    (line, total) = board.lines()
    assert "round 3 of 20" in line and "about 40 s left" in line and line.endswith("timing")
    assert total.endswith("about 3 min left")
    assert board.end(7) == ("bench a", 15.0)
    assert len(board.lines()) == 1


def test_jobs_may_begin_and_end_while_the_lines_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread makes the lines; here what is looked at in between is what changes."""
    jobs = [job("bench", name, tmp_path) for name in ("a", "b")]
    expected = expectations(tmp_path, jobs, [])
    board = Board(expectations=expected)
    needed = expected._workflow.dag._needrun
    expected._workflow.dag.finished = lambda one: needed.discard(one)
    fields = {"rule_name": "bench", "log": []}
    for jobid in (1, 2):
        board.start(fields | {"jobid": jobid}, f"bench {jobid}")
    monkeypatch.setattr(Running, "step", lambda _: board.end(2) and None)
    assert len(board.lines()) == 3
    assert len(board.lines()) == 2


def test_units_that_are_done_tell_the_time_of_those_that_are_left(tmp_path: Path) -> None:
    clock, log = Clock(), tmp_path / "train-nano.log"
    board = Board(expectations=expectations(tmp_path, [], []), clock=clock)
    board.start({"jobid": 1, "rule_name": "train", "log": [str(log)]}, "train nano")
    progress_file(log).write_text('{"phase": "", "unit": "launch", "done": 2, "total": 5, "left_s": null}')
    clock.now += 40.0
    assert "about 60 s left" in board.lines()[0]


def test_with_a_job_that_takes_longer_than_expected_the_time_left_is_a_least(tmp_path: Path) -> None:
    clock = Clock()
    jobs = [job("bench", "a", tmp_path), job("bench", "b", tmp_path)]
    board = Board(expectations=expectations(tmp_path, jobs, []), clock=clock)
    fields = {"jobid": 7, "rule_name": "bench", "log": []}
    board.start(fields, "bench a")
    clock.now += 100.0 + BATCH_S - 10.0
    assert board.lines()[-1].endswith(", about 2 min left")  # 10 s of a, 115 s of b
    clock.now += 11.0
    line, total = board.lines()
    assert line.endswith("longer than expected") and total.endswith(", at least 2 min left")


def test_a_command_says_how_far_it_is_at_once_in_its_file_and_every_30_seconds_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(SHOWN_BY_SNAKEMAKE, raising=False)
    clock, log = Clock(), tmp_path / "logs" / "bench-a.log"
    say = Progress("bench", log, clock)
    say("begins")
    for done in range(40):
        tell(say, ProgressStep(phase="timing", unit="round", done=done, total=40, left_s=80.0 - 2 * done))
        assert json.loads(progress_file(log).read_text())["done"] == done
        clock.now += 2.0
    lines = log.read_text().splitlines()
    rounds = [[int(word) for word in re.findall(r"\d+", line.partition("bench: ")[2])] for line in lines]
    assert rounds == [[], [0, 40, 80], [15, 40, 50], [30, 40, 20]]
    assert capsys.readouterr().err.splitlines() == lines
    monkeypatch.setenv(SHOWN_BY_SNAKEMAKE, "1")
    say("ends")
    assert capsys.readouterr().err == "" and "ends" in log.read_text()
    say.end()
    assert [file.name for file in log.parent.iterdir()] == [log.name]


def test_a_plain_listener_gets_a_line() -> None:
    said: list[str] = []
    tell(said.append, ProgressStep(phase="8 arms", unit="launch", done=1, total=5))
    assert said == ["8 arms: launch 1 of 5"]


def test_a_log_gets_lines_as_time_goes_by(capsys: pytest.CaptureFixture[str]) -> None:
    screen = LogScreen(lambda: ["bench a     0:10   round 3", "1 of 3 jobs done"], every_s=0.01)
    screen.begin()
    while not (said := capsys.readouterr().err):
        pass
    screen.end()
    first = said.splitlines()[0]
    assert first.startswith("[") and first.endswith("] bench a 0:10 round 3")


def record(**fields: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"levelno": logging.INFO, "levelname": "INFO", "msg": ""} | fields)
    return made


def test_the_message_of_a_failed_rule_is_the_last_thing_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from snakemake.logging import DefaultFormatter

    monkeypatch.setenv(SHOWN_BY_SNAKEMAKE, "")
    log = tmp_path / "fit.log"
    log.write_text("[10:00:00] fit: begins\n[10:00:01] fit: ERROR: theta is wrong: mend it\n")
    plain = logging.StreamHandler()
    plain.setFormatter(DefaultFormatter(show_failed_logs=True))
    handler = RunHandler(plain, Board(expectations=expectations(tmp_path, [], [])), lambda _: "")
    of_job = {"jobid": 1, "rule_name": "search", "log": [str(log)]}
    about = {
        "input": [],
        "output": ["theta"],
        "conda_env": None,
        "shellcmd": "fit",
        "aux": {},
        "rule_msg": "",
    }
    handler.emit(record(event=LogEvent.JOB_INFO, wildcards={"problem": "a"}, **of_job))
    handler.emit(record(msg="Select jobs to execute..."))
    handler.emit(record(event=LogEvent.JOB_ERROR, levelno=logging.ERROR, **of_job, **about))
    handler.emit(record(msg="Exiting because a job execution failed.", levelno=logging.ERROR))
    handler.close()
    said = capsys.readouterr().err
    assert "Error in rule search" in said and "Select jobs" not in said
    assert said.count("theta is wrong: mend it") == 2
    whose, why = said.splitlines()[-2:]
    assert whose.startswith("search a failed") and why == log.read_text().splitlines()[-1]


@pytest.mark.parametrize("how", ["killed", "said why", "ended"])
def test_a_job_that_was_killed_says_so_and_that_the_same_command_goes_on(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "bench-a.log"
    attempts.begin(log, 100.0)
    error = "[2] bench: ERROR: no ranks\n" if how == "said why" else ""
    log.write_text(f"[1] bench: round 3 of 20\n{error}")
    if how == "ended":
        attempts.end(log, 110.0, made=False)
    handler = RunHandler(
        logging.StreamHandler(), Board(expectations=expectations(tmp_path, [], [])), lambda _: ""
    )
    of_job = {"jobid": 1, "rule_name": "bench", "log": [str(log)]}
    handler.emit(record(event=LogEvent.JOB_INFO, wildcards={"problem": "a"}, **of_job))
    handler.emit(record(event=LogEvent.JOB_ERROR, **of_job))
    handler.close()
    *_, last = capsys.readouterr().err.splitlines()
    assert (
        last
        == {
            "killed": f"{KILLED}: {KEPT}",
            "said why": error.strip(),
            "ended": "[1] bench: round 3 of 20",
        }[how]
    )


def test_a_bug_is_shown_with_its_traceback(tmp_path: Path) -> None:
    log = tmp_path / "fit.log"
    log.write_text("[1] fit: begins\n[2] fit: BUG: Traceback\n  line 1\nRuntimeError: boom\n")
    assert last_words([str(log)]) == "[2] fit: BUG: Traceback\n  line 1\nRuntimeError: boom"
