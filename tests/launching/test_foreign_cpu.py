"""What others take of the CPU is what idleness and one's own processes do not explain, and steal at least."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overlayccl_core.launching import foreign_cpu
from overlayccl_core.launching.foreign_cpu import CpuTimes, cpu_times
from overlayccl_core.timing.batch import time_programs
from tests.timing.batches import batch, jobs, settings

TICKS = os.sysconf("SC_CLK_TCK")
BURN = """
import os, sys, time
cpu, seconds = int(sys.argv[1]), float(sys.argv[2])
if cpu >= 0:
    os.sched_setaffinity(0, {cpu})
end = time.monotonic() + seconds
while time.monotonic() < end:
    pass
"""


def stat(*cpus: str) -> str:
    """The text of /proc/stat: the sum of all CPUs first, which nobody is to look at."""
    rows = [f"cpu{number} {columns} 0 0" for number, columns in enumerate(cpus)]
    return "\n".join(["cpu 9 9 9 9 9 9 9 9 0 0", *rows, "intr 5 0 0", ""])


def between(before: list[str], after: list[str], *, passed_s: float, own_s: float) -> CpuTimes:
    """What came between two texts, on CPUs 0 and 1; columns: user nice system idle iowait irq softirq steal."""
    first = cpu_times(stat(*before), {0, 1}, passed_s=0.0, own_s=0.0)
    return cpu_times(stat(*after), {0, 1}, passed_s=passed_s, own_s=own_s).since(first)


def hundred(*ticks: int) -> str:
    """Columns in hundredths of a second."""
    return " ".join(str(t * TICKS // 100) for t in ticks)


NOTHING = hundred(0, 0, 0, 0, 0, 0, 0, 0)
IDLE = hundred(0, 0, 0, 1000, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("first_cpu", "own_s", "left_s"),
    [
        (hundred(0, 0, 0, 300, 100, 0, 0, 0), 4.0, 2.0),
        (
            hundred(100, 0, 0, 600, 0, 0, 200, 0),
            4.0,
            0.0,
        ),  # 2 s of softirq are inside the 4 s of own processes
        (hundred(100, 0, 0, 600, 0, 10, 190, 0), 2.0, 0.0),  # no process is charged with interrupts
        (hundred(600, 0, 0, 200, 0, 0, 0, 200), 6.0, 2.0),
    ],
    ids=["strangers", "charged interrupts", "nobody's interrupts", "steal"],
)
def test_what_neither_idleness_interrupts_nor_own_processes_explain_is_of_others(
    first_cpu: str, own_s: float, left_s: float
) -> None:
    seen = between([NOTHING] * 2, [first_cpu, IDLE], passed_s=20.0, own_s=own_s)
    assert (seen.left_s, seen.foreign_share) == pytest.approx((left_s, left_s / 20))


def test_steal_is_of_others_where_it_is_hidden_in_the_time_of_processes() -> None:
    busy = hundred(600, 0, 0, 200, 0, 0, 0, 200)
    seen = between([NOTHING] * 2, [busy, IDLE], passed_s=20.0, own_s=8.0)
    assert seen.foreign_share == pytest.approx(0.1)


def test_cpus_that_ranks_may_not_use_are_not_looked_at() -> None:
    times = cpu_times(stat(IDLE, NOTHING), {0}, passed_s=10.0, own_s=0.0)
    assert (times.idle_s, times.foreign_share) == (10.0, 0.0)


@contextmanager
def burning(cpus: list[int], seconds: float) -> Iterator[list[int]]:
    """Busy loops for so long, one for each CPU (-1: not pinned); their ids."""
    loops = [subprocess.Popen([sys.executable, "-c", BURN, str(cpu), str(seconds)]) for cpu in cpus]
    try:
        time.sleep(0.3)
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.ranks  # tests without ranks run niced, and get too little of the CPU to see it
def test_a_busy_loop_is_seen_as_a_strangers_and_not_as_ones_own() -> None:
    with burning([-1], 20.0) as loop:
        before = [foreign_cpu.read([]), foreign_cpu.read(loop)]
        time.sleep(2.0)
        after = [foreign_cpu.read([]), foreign_cpu.read(loop)]
    strange, own = (b.since(a) for a, b in zip(before, after, strict=True))
    burnt_s = own.own_s
    assert burnt_s > 0.2
    assert strange.left_s - own.left_s == pytest.approx(burnt_s, abs=0.06)
    assert strange.foreign_share >= burnt_s / strange.passed_s - 0.02


@pytest.mark.ranks
def test_a_child_that_ended_and_was_long_idle_is_not_ones_own_now() -> None:
    with burning([-1], 60.0):
        time.sleep(1.5)
        before = foreign_cpu.read([os.getpid()])
    after = foreign_cpu.read([os.getpid()])  # the loop was reaped between
    assert after.since(before).own_s < 0.5


@pytest.mark.ranks
def test_the_share_of_a_launch_rises_by_what_busy_loops_on_its_cpus_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ranks themselves take is no stranger's: they have a part of the CPU in both launches."""
    readings: list[tuple[CpuTimes, float]] = []
    loops: list[int] = []
    read = foreign_cpu.read

    def noted(own: Iterable[int]) -> CpuTimes:
        readings.append((read(own), read(loops).own_s))
        return readings[-1][0]

    monkeypatch.setattr(foreign_cpu, "read", noted)
    rules = settings(
        seconds=60.0, maximum_rounds=150, max_repeats=64, min_sample_ms=16.0, program_timeout_s=60.0
    )

    def launched(name: str) -> tuple[float, float]:
        """(share of a launch, share that the loops took)."""
        readings.clear()
        given = batch(tmp_path / name, jobs(names=("reduce",)), settings=rules)
        (timed,) = time_programs(given, lambda _text: None)
        assert timed.foreign_cpu_share is not None
        (first, burnt), (last, burnt_then) = readings[0], readings[-1]
        seen = last.since(first)
        assert seen.passed_s > 2 * foreign_cpu.LEAST_S  # else ticks that are rounded away would count
        assert seen.own_s > 0.1 * seen.passed_s
        return timed.foreign_cpu_share, (burnt_then - burnt) / seen.passed_s

    share, _ = launched("alone")
    assert share < 0.9
    with burning(sorted(os.sched_getaffinity(0)), 90.0) as started:
        loops += started
        share, of_loops = launched("beside")
    assert of_loops > 0.1 and share > of_loops - 0.03
