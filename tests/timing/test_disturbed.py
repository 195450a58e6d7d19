"""A launch in which others took the CPU: repeated once, the less disturbed one kept and marked."""

import errno
import fcntl
import tempfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from overlayccl_core.backends.measured import TimedProgram, TimingSettings
from overlayccl_core.locks import machine_lock
from overlayccl_core.timing import batch as timing
from overlayccl_core.timing.launch_store import KeptLaunches
from tests.timing.batches import batch, jobs, kept_in


def _keep(kept: KeptLaunches, shares: list[float]) -> None:
    """Stands for the ranks: one more launch, of one Program, and the share of the CPU that strangers took."""
    attempt = kept.next_attempt()
    timed = TimedProgram(
        key="reduce", program="reduce", launch=attempt, fingerprint="here", repeats=1, samples_us=(1.0, 1.0),
        planned_rounds=2, foreign_cpu_share=shares[attempt], disturbed=shares[attempt] > 0.1,
    )  # fmt: skip
    kept.keep(kept.folder / f"launch-0.{attempt}", [asdict(timed)])


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
    settings = replace(TimingSettings(seconds=1.0), repeat_disturbed=repeat)
    said: list[str] = []
    timer = timing._Timer(batch(tmp_path, jobs(names=("reduce",)), settings=settings), said.append)
    monkeypatch.setattr(timer, "launch", lambda _jobs: _keep(timer.kept, shares))
    kept = timer.finish()
    assert len(timer.kept.attempts()) == launched
    assert [t.launch for t in kept] == [chosen] and kept[0].disturbed == (shares[0] > 0.1)
    assert any("once more" in line for line in said) == (launched == 2)


def test_what_was_repeated_before_a_run_was_cut_off_is_not_repeated_again(tmp_path: Path) -> None:
    said: list[str] = []
    kept = kept_in(tmp_path, said.append)
    for _ in range(2):
        _keep(kept, [0.3, 0.2])
    assert not kept.disturbed_once() and said == []


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
        assert len(waited) == 1 and "another measurement" in waited[0]
    thread.join(5)
    assert waited[-1] == "in"


def test_without_locks_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="No locks"), machine_lock(lambda _: None):
        pytest.fail("measured beside others")
