"""A launch in which others took the CPU: repeated once, the less disturbed one kept and marked."""

import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from overlayccl_core.backends.measured import TimedProgram, TimingSettings
from overlayccl_core.launching.machine_lock import machine_lock
from overlayccl_core.timing import batch as timing
from overlayccl_core.timing.partial import launch_quietly
from tests.timing.batches import batch, jobs


class Launches:
    """Stands for the ranks: each launch gives one sample a Program, and a share that strangers took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> None:
        self.shares = shares
        self.kept: list[list[TimedProgram]] = []
        monkeypatch.setattr(timing._Timer, "launch", self.launch)

    def recover(self) -> None:
        """No dead run left anything."""

    def launches(self) -> list[list[TimedProgram]]:
        return self.kept

    def launch(self, programs: list) -> None:
        share = self.shares[len(self.kept)]
        self.kept.append([_timed(job.key, len(self.kept), share) for job in programs])


def _timed(key: str, launch: int, share: float) -> TimedProgram:
    return TimedProgram(
        key=key, program=key, launch=launch, repeats=1, cold_us=(1.0,), samples_us=(1.0, 1.0), slowest_rank=(0, 0),
        oversubscribed=False, foreign_cpu_share=share, disturbed=share > 0.1, fingerprint="here",
        planned_rounds=2, complete=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("shares", "repeat", "launched", "chosen"),
    [([0.05], True, 1, 0), ([0.3, 0.2], True, 2, 1), ([0.2, 0.3], True, 2, 0), ([0.3], False, 1, 0)],
)
def test_a_disturbed_launch_is_repeated_once_and_the_quieter_one_is_kept(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    shares: list[float],
    repeat: bool,
    launched: int,
    chosen: int,
) -> None:
    work = Launches(monkeypatch, shares)
    settings = replace(TimingSettings(seconds=1.0), repeat_disturbed=repeat)
    said: list[str] = []
    timer = timing._Timer(batch(tmp_path, jobs(names=("reduce",)), settings=settings), said.append)
    timer.store = work  # type: ignore[assignment]
    kept = timer.finish()
    assert len(work.kept) == launched
    assert [t.launch for t in kept] == [chosen] and kept[0].disturbed == (shares[0] > 0.1)
    assert any("once more" in line for line in said) == (launched == 2)


def test_what_was_repeated_before_a_run_was_cut_off_is_not_repeated_again() -> None:
    kept = [_timed("reduce", launch, share) for launch, share in enumerate((0.3, 0.2))]
    said: list[str] = []
    launch_quietly(
        lambda: kept, lambda: pytest.fail("a third launch"), lacking=False, repeat=True, progress=said.append
    )
    assert said == []


def test_a_second_measurement_waits_for_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    waited: list[str] = []

    def second() -> None:
        with machine_lock(waited.append):
            waited.append("in")

    with machine_lock(waited.append):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        assert waited == ["waiting: another measurement runs on this machine"]
    thread.join(5)
    assert waited[-1] == "in"
