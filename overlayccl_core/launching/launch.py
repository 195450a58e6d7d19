"""Ranks of a launch on one host: start and watch them, name the first failure, leave no process behind.

A launch is a folder: the worker module reads its work there and writes its results there. Ranks of a host share
their status with their watcher in memory. Their output goes to a log, a rank's traceback to rank-<r>.error in the
folder. The backend starts the ranks (`Starter`).

A launch over several hosts has one such watcher on each host (`nodes.py`).
"""

import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from overlayccl_core import disk
from overlayccl_core.launching import foreign_cpu, processes
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.local_ranks import LocalRanks
from overlayccl_core.launching.status import NO_JOB, Phase, StatusFile

POLL_S = 0.1
REPORT_PATIENCE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Ranks to start: `ranks` processes that each run `main(folder)` of the module `worker`.

    Attributes:
        names: Names of the worker's jobs.
        start_timeout_s: Time for all ranks to join.
        step_timeout_s: Longest time without a step of any rank; beyond it they hang.
        imports: Further modules of the ranks; a host imports them once for all of them.
    """

    worker: str
    folder: Path
    ranks: int
    names: tuple[str, ...] = ()
    start_timeout_s: float = 120.0
    step_timeout_s: float = 60.0
    imports: tuple[str, ...] = ()


class Starting(Protocol):
    """The process above the ranks of a launch on this host; they end with it."""

    @property
    def pid(self) -> int:
        """Process id."""

    @property
    def port(self) -> int:
        """Port of the ranks' rendezvous store."""

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""

    def wait(self) -> int:
        """Wait for the end and return the exit code."""

    def exit_codes(self) -> Mapping[int, int]:
        """Return process id -> exit code of a rank, negative for a signal, as far as the process has told."""

    @property
    def mark(self) -> str:
        """Text in each rank's command line; process ids are reused."""


Starter = Callable[[Launch, LocalRanks], Starting]
"""How a library starts some ranks of a launch on this host; their processes print to its log."""
Watch = Callable[[NDArray[np.int64]], None]


def no_watch(_rows: NDArray[np.int64]) -> None:
    """Ignore the rows."""


def run(
    plan: Launch,
    starter: Starter,
    watch: Watch = no_watch,
    *,
    part: LocalRanks | None = None,
    begun: Callable[[Starting], None] = lambda _: None,
    others_done: Callable[[], bool] = lambda: True,
) -> float:
    """Run the ranks of a part to their end.

    Args:
        watch: Gets the status rows [ranks, 7] ten times a second.
        part: Part of the launch; None: all ranks.
        begun: Gets the process above the ranks.
        others_done: Tells whether the ranks of other parts are done too; until then finished ranks stay.

    Returns:
        Share (0..1) of the CPU that others took while ranks timed; 0 if they timed nothing, or less than
        `foreign_cpu.LEAST_S` of CPU time, too short for clock ticks.

    Raises:
        LaunchError: A rank or the process above it died, or a rank raised or hung. On every way out,
            KeyboardInterrupt included, all processes of the part have ended.
    """
    part = part or LocalRanks.whole(plan.folder, plan.ranks)
    status = StatusFile.create(part.status, part.count, part.clock_offset_ns)
    watcher = _Watcher(plan, part, starter, status)
    try:
        begun(watcher.process)
        while watcher.process.poll() is None and not (watcher.all_done() and others_done()):
            watch(status.snapshot())
            watcher.look()
            time.sleep(POLL_S)
        watcher.check_end()
    finally:
        watcher.end()
    return watcher.foreign_cpu.share


class _Watcher:
    """Looks at the ranks between polls and names their failure."""

    def __init__(self, plan: Launch, part: LocalRanks, starter: Starter, status: StatusFile) -> None:
        self.plan = plan
        self.part = part
        self.status = status
        self.process = starter(plan, part)
        self.foreign_cpu = foreign_cpu.ForeignCpu()
        self._steps = status.snapshot()[:, StatusFile.STEPS]
        self._moved_at = self._started_at = time.monotonic()

    def look(self) -> None:
        """Raise LaunchError if a rank has died, raised, or not moved for too long."""
        rows = self.status.snapshot()
        self._check_alive(rows)
        now = time.monotonic()
        if (rows[:, StatusFile.STEPS] != self._steps).any():
            self._steps, self._moved_at = rows[:, StatusFile.STEPS], now
        if (rows[:, StatusFile.PHASE] == Phase.TIMING).all():
            self.foreign_cpu.look(lambda: {*processes.tree(self.process.pid), *self._pids_of_ranks()})
        if (rows[:, StatusFile.PHASE] <= Phase.JOINING).any():
            if now - self._started_at > self.plan.start_timeout_s:
                late = np.flatnonzero(rows[:, StatusFile.PHASE] <= Phase.JOINING)
                what = f"did not join within {self.plan.start_timeout_s:.0f} s"
                raise self._error(rows, late, what, Failure.NOT_JOINED)
        elif not self.all_done() and now - self._moved_at > self.plan.step_timeout_s:
            what = f"took no step for {self.plan.step_timeout_s:.0f} s"
            raise self._error(rows, self._behind(rows), what, Failure.HUNG)

    def all_done(self) -> bool:
        """Return whether all ranks are done; how they then leave the process group does not matter."""
        return bool((self.status.snapshot()[:, StatusFile.PHASE] == Phase.DONE).all())

    def check_end(self) -> None:
        """Raise LaunchError unless all ranks are done."""
        rows = self.status.snapshot()
        self._check_alive(rows)
        if not self.all_done():
            raise self._launcher_ended(rows)

    def end(self) -> None:
        ranks = {pid for pid in self._pids_of_ranks() if processes.mentions(pid, self.process.mark)}
        processes.kill_all(set(processes.tree(self.process.pid)) | ranks)
        self.process.wait()

    def _pids_of_ranks(self) -> set[int]:
        return {int(pid) for pid in self.status.snapshot()[:, StatusFile.PID] if pid > 0}

    def _check_alive(self, rows: NDArray[np.int64]) -> None:
        if (rows[:, StatusFile.PHASE] == Phase.FAILED).any() or self._dead(rows):
            raise self._blame(rows)

    def _dead(self, rows: NDArray[np.int64]) -> list[int]:
        dead = []
        for rank, (pid, phase) in enumerate(rows[:, [StatusFile.PID, StatusFile.PHASE]].tolist()):
            state = processes.state(pid) if pid else None
            if pid and phase not in (Phase.DONE, Phase.FAILED) and not (state and state.alive):
                dead.append(rank)
        still = self.status.snapshot()[dead, StatusFile.PHASE]  # it may have reported since its row was read
        return [r for r, phase in zip(dead, still, strict=True) if phase not in (Phase.DONE, Phase.FAILED)]

    def _blame(self, rows: NDArray[np.int64]) -> LaunchError:
        """Return the failure that began it; the other ranks break off, or are ended, because of it.

        The process above the ranks comes first if it ended and named no rank: all ranks end with it. Then a rank
        that died by itself, since a lost peer makes others raise. Then a refused file, then the earliest rank to
        raise.
        """
        end = time.monotonic() + REPORT_PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            time.sleep(POLL_S)
        now = self.status.snapshot()
        failed = np.flatnonzero(now[:, StatusFile.PHASE] == Phase.FAILED)
        told = self.process.exit_codes()
        codes = [told.get(pid) for pid in rows[:, StatusFile.PID].tolist()]
        gave = self.process.poll() or 0
        if gave < 0 or (gave > 0 and not len(failed) and not any(codes)):
            return self._launcher_ended(rows)
        dead = self._dead(now)
        died = [(rank, code) for rank in dead if (code := codes[rank]) not in (None, -signal.SIGTERM)]
        if died:
            rank, code = died[0]
            return self._error(rows, np.array([rank]), f"died ({_how(code or 0)})", Failure.CRASHED)
        if len(failed):
            if number := int(now[failed, StatusFile.REFUSED].max()):  # others may break off before its report
                return self._refused(now, number)
            first = failed[np.argmin(now[failed, StatusFile.FAILED_NS])]
            return self._error(now, np.array([first]), f"raised {self._raised(int(first))}", Failure.RAISED)
        return self._error(rows, np.array(dead[:1] or [0]), "died", Failure.CRASHED)

    def _launcher_ended(self, rows: NDArray[np.int64]) -> LaunchError:
        """Blame no rank and no job: the ranks ended with the process above them."""
        phase = Phase(int(rows[:, StatusFile.PHASE].min()))
        return LaunchError(
            f"what started the {self.part.count} ranks ended ({_how(self.process.poll() or 0)}) while "
            f"{phase.words}{self._last_words(phase)}",
            kind=Failure.LAUNCHER,
        )

    def _refused(self, rows: NDArray[np.int64], number: int) -> LaunchError:
        """Blame no job for a file refused by the machine."""
        rank = int(np.flatnonzero(rows[:, StatusFile.REFUSED] == number)[0])
        return LaunchError(
            f"rank {rank + self.part.first} of {self.plan.ranks} could not write a file: "
            f"{disk.said(number, self.plan.folder, Path(tempfile.gettempdir()))}",
            kind=Failure.DISK,
            ranks=(rank + self.part.first,),
            at_ns=int(rows[rank, StatusFile.FAILED_NS]),
        )

    def _behind(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ranks that hold up the others: stopped ones, else those with the fewest steps."""
        letters = [s.letter if (s := processes.state(int(pid))) else "X" for pid in rows[:, StatusFile.PID]]
        stopped = np.array([letter in "Tt" for letter in letters])
        return np.flatnonzero(
            stopped if stopped.any() else rows[:, StatusFile.STEPS] == rows[:, StatusFile.STEPS].min()
        )

    def _error(
        self, rows: NDArray[np.int64], ranks: NDArray[np.int64], what: str, kind: Failure
    ) -> LaunchError:
        first = int(ranks[0])
        phase = Phase(int(rows[first, StatusFile.PHASE]))
        those = tuple(int(rank) + self.part.first for rank in ranks)
        index = int(rows[first, StatusFile.JOB])
        job = None if index == NO_JOB else self.plan.names[index]
        on = f" at {job}" if job is not None else ""
        when = f" while {phase.words}" if phase is not Phase.FAILED else ""
        return LaunchError(
            f"{who(those)} of {self.plan.ranks} {what}{when}{on}{self._last_words(phase)}",
            kind=kind,
            ranks=those,
            job=job,
            at_ns=int(rows[first, StatusFile.FAILED_NS]) or time.monotonic_ns() + self.status.clock_offset_ns,
        )

    def _raised(self, rank: int) -> str:
        path = self.plan.folder / f"rank-{self.part.first + rank}.error"
        return (
            path.read_text().strip().splitlines()[-1] if path.exists() else "an error that it could not write"
        )

    def _last_words(self, phase: Phase) -> str:
        """Quote the last printed line, if ranks ended before they could report."""
        printed = self.part.log.read_text(errors="replace") if phase <= Phase.JOINING else ""
        lines = printed.strip().splitlines()
        return f" (the last it printed: {lines[-1]})" if lines else ""


def who(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
