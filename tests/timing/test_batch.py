"""Timing on real ranks: what a batch gives, keeps and does again."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.launching.local_ranks import STATUS_FILE
from overlayccl_core.launching.status import StatusFile
from overlayccl_core.measuring.statistics import FEWEST_ROUNDS
from overlayccl_core.timing.batch import time_programs
from tests.timing.batches import (
    BODIES,
    batch,
    broken_job,
    jobs,
    kept_in,
    leftovers,
    processes_of,
    settings,
    silent,
)

pytestmark = pytest.mark.ranks


def test_a_batch_gives_samples_of_every_program_and_is_not_timed_twice(tmp_path: Path) -> None:
    said: list[str] = []
    first = time_programs(batch(tmp_path), said.append)
    assert [timed.key for timed in first] == list(BODIES)
    for timed in first:
        assert timed.launch == 0 and timed.rounds == 4
        assert min(timed.samples_us) > 0
        assert set(timed.slowest_rank) <= {0, 1} and 1 <= timed.repeats <= 3
        assert "torch 2" in timed.fingerprint
        assert timed.first_call_us and (timed.compile_us, timed.graphs) == (0.0, 0)
    assert any("2 ranks" in line for line in said)
    assert leftovers(tmp_path) == []
    said.clear()
    assert time_programs(batch(tmp_path), said.append) == first
    assert any("using the samples" in line for line in said) and not any("timing" in line for line in said)
    [kept] = tmp_path.glob("bench-*")
    again = time_programs(batch(tmp_path, jobs(names=("twice",))), silent)
    assert [t.key for t in again] == ["twice"] and len(list(tmp_path.glob("bench-*"))) == 2 and kept.exists()


def test_a_budget_below_the_floor_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    tight = settings(seconds=1.0, minimum_rounds=4)
    timed = time_programs(batch(tmp_path, settings=tight), said.append)
    assert timed[0].rounds == 2
    assert any("below the floor of 4" in line for line in said)


@pytest.mark.parametrize(
    ("statement", "pattern"),
    [
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import os; os.kill(os.getpid(), 19)", "no step for 6 s"),
        ("raise RuntimeError('no luck')", "no luck"),
    ],
    ids=["killed", "stopped", "raising"],
)
def test_a_rank_that_fails_ends_the_batch_naming_rank_and_program(
    tmp_path: Path, statement: str, pattern: str
) -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match=f"rank 1 of 2 .*{pattern}.* the broken one"):
        time_programs(batch(tmp_path, [*jobs(), broken_job(statement)]), silent)
    assert time.monotonic() - started < 30
    assert processes_of(tmp_path) == set()
    assert leftovers(tmp_path) == []


SCRIPT = """
import sys
from pathlib import Path
from overlayccl_core.timing import reporting
from overlayccl_core.timing.batch import time_programs
from tests.timing.batches import batch, settings
reporting.LINE_S = 0.5
many = settings(seconds=600.0, maximum_rounds=100000, min_sample_ms=30.0, max_repeats=200)
time_programs(batch(Path(sys.argv[1]), settings=many), lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_an_interrupted_batch_leaves_no_process_and_goes_on_where_it_was(
    tmp_path: Path, how: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if ": round " in line and "round 0 " not in line:
            break
    time.sleep(1.0)
    [launch] = tmp_path.glob("bench-*/launch-*")
    ranks = StatusFile.open(launch / STATUS_FILE, 2).snapshot()[:, StatusFile.PID].tolist()
    found = processes_of(tmp_path)
    assert found > set(ranks) and len(found) == len(ranks) + 1
    process.send_signal(how)
    process.wait(20)
    process.stdout.close()
    end = time.monotonic() + 10
    while processes_of(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_of(tmp_path) == set()

    [folder] = tmp_path.glob("bench-*")
    if how is signal.SIGKILL:
        assert (folder / "launch-0.0").is_dir()
    else:
        assert leftovers(tmp_path) == []
        [cut_off] = kept_in(folder).attempts()
        assert min(one.rounds for one in cut_off.timed) >= 1


def test_finished_rounds_of_a_launch_that_was_cut_off_are_kept_and_the_rest_is_timed(tmp_path: Path) -> None:
    """Rank 1 dies in its seventh call, once: what was finished stays, the next run brings what is missing."""
    mark = tmp_path / "mark"
    dies_once = (
        "import os, pathlib; global calls; calls = globals().get('calls', 0) + 1; mark = pathlib.Path("
        f"{str(mark)!r}); calls == 7 and not mark.exists() and (mark.touch(), os.kill(os.getpid(), 9))"
    )
    everything = [*jobs(), broken_job(dies_once)]
    given = batch(tmp_path, everything, settings=settings(max_repeats=1, maximum_rounds=8))
    with pytest.raises(ValueError, match=r"SIGKILL.* while timing"):
        time_programs(given, silent)
    [folder] = tmp_path.glob("bench-*")
    [cut_off] = kept_in(folder).attempts()
    finished = {one.key: one.rounds for one in cut_off.timed}
    assert not cut_off.complete and len(finished) == 4
    assert {one.planned_rounds for one in cut_off.timed} == {8}
    fewest = min(finished.values())
    assert 3 <= fewest <= max(finished.values()) <= fewest + 1 <= 6

    said: list[str] = []
    timed = time_programs(given, said.append)
    assert any("continuing" in line for line in said)
    for job in everything:
        rounds = {t.launch: t.rounds for t in timed if t.key == job.key}
        assert rounds == {0: finished[job.key], 1: 8 - finished[job.key]}


def test_what_is_slow_leaves_its_race_and_the_others_go_on(tmp_path: Path) -> None:
    """All in one race: the one that sleeps is timed as often as there has to be an interval, and no more."""
    slow = broken_job("import time; time.sleep(0.1)")
    racing = [replace(job, races=("one",)) for job in (*jobs()[:2], slow)]
    given = batch(tmp_path, racing, settings=settings(max_repeats=4, maximum_rounds=10, minimum_rounds=10))
    rounds = {timed.key: timed.rounds for timed in time_programs(given, silent)}
    assert rounds[slow.key] == FEWEST_ROUNDS
    assert max(rounds.values()) == 10
