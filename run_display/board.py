"""State of a run, as text: the running jobs, the progress of each, and the total time left."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlayccl_core.measuring.progress import ProgressStep
from overlayccl_core.tables import attempts
from run_display.expected import Expectations, total_left_s
from workflow_scripts.progress import progress_file

NAME_WIDTH = 24


@dataclass(slots=True, kw_only=True)
class Running:
    """A job that has begun; `expected_s` is its whole expected time."""

    name: str
    log: Path | None
    began: float
    expected_s: float

    def step(self) -> ProgressStep | None:
        """Return its command's last Step, if any."""
        if self.log is None:
            return None
        try:
            return ProgressStep(**json.loads(progress_file(self.log).read_text()))
        except (OSError, ValueError, TypeError):  # not there yet, or gone
            return None

    def left_s(self, step: ProgressStep | None, now: float) -> float | None:
        """Seconds left: from its command, else from its units so far, else from its expectation; None: overdue."""
        if step is not None and step.left_s is not None:
            return step.left_s
        spent = now - self.began
        if step is not None and 0 < step.done < step.total:
            return spent * (step.total - step.done) / step.done
        return self.expected_s - spent if self.expected_s > spent else None


@dataclass(slots=True, kw_only=True)
class Board:
    """All jobs of a run."""

    expectations: Expectations
    clock: Callable[[], float] = time.monotonic
    running: dict[int, Running] = field(default_factory=dict)
    done: int = 0
    total: int = 0
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()

    def start(self, record: dict[str, Any], name: str) -> None:
        """Add a job from the fields of Snakemake's record."""
        logs = list(map(str, record.get("log") or ()))
        expected = self.expectations.seconds(str(record["rule_name"]), logs)
        self.running[record["jobid"]] = Running(
            name=name, log=Path(logs[0]) if logs else None, began=self.clock(), expected_s=expected
        )

    def end(self, jobid: int) -> tuple[str, float] | None:
        """Remove an ended job and return (name, seconds); None if its start was never seen."""
        job = self.running.pop(jobid, None)
        return (job.name, self.clock() - job.began) if job else None

    def lines(self) -> list[str]:
        """Return a line for each running job, and one for all."""
        now = self.clock()
        of_jobs, left = [], {}
        for job in list(self.running.values()):  # a copy: jobs begin and end in other threads
            step = job.step()
            left[job.name] = job.left_s(step, now)
            of_jobs.append(_line(job, step, left[job.name], now))
        word = "at least" if None in left.values() else "about"  # a job is overdue
        total = about(total_left_s(self.expectations.left(), left), word)
        return [
            *of_jobs,
            f"{self.done} of {self.total} jobs done in {_clock(now - self.began)}, {total} left",
        ]


def _line(job: Running, step: ProgressStep | None, left_s: float | None, now: float) -> str:
    how_far = f"{step.unit} {step.done} of {step.total}" if step and step.unit else "working"
    left = f"{about(left_s)} left" if left_s is not None else "longer than expected"
    phase = f"   {step.phase.splitlines()[0]}" if step and step.phase else ""
    return f"{job.name:<{NAME_WIDTH}} {_clock(now - job.began):>6}  {how_far:<18} {left}{phase}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def about(seconds: float, word: str = "about") -> str:
    """Round seconds to the precision of an estimate."""
    if seconds < 90:
        return f"{word} {max(5 * round(seconds / 5), 5)} s"
    return f"{word} {round(seconds / 60)} min"


def was_killed(logs: Sequence[str]) -> bool:
    """Return whether a failed job ended in the middle of its work: its attempt has no end, its log no reason."""
    for log in map(Path, logs):
        noted = attempts.read(attempts.file_of(log))
        if noted and noted[-1].ended is None:
            with suppress(OSError):
                return not _reasons(log.read_text().splitlines())
            return True
    return False


def _reasons(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that begin a message of an error."""
    return [k for k, line in enumerate(lines) if ": ERROR: " in line or ": BUG: " in line]


def last_words(logs: Sequence[str]) -> str:
    """Return a failed job's message or traceback, from the end of its log."""
    for log in logs:
        try:
            lines = Path(log).read_text().splitlines()
        except OSError:
            continue
        marks = _reasons(lines)
        return "\n".join(lines[marks[-1] :] if marks else lines[-20:])
    return ""
