"""Attempts of a rule's job, beside its log: what it took, with failed attempts and those cut off.

Snakemake would keep the duration of the last attempt alone, and only of one that ended well. A line of
`logs/<job>.attempts` is an attempt: begin and end in seconds of Unix time, and how it ended, between tabs. An
attempt that was killed has no end: the next one gives it the time of the file, which a job dates anew while it
works (`alive`). Its log cannot tell: Snakemake removes it before the next attempt begins.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from overlayccl_core.tables.atomic import write_text

SUFFIX = ".attempts"
MADE, ENDED = "made", "ended"  # its tables; without them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAttempt:
    """An attempt. ended, how: None and empty while it runs, and after a kill."""

    began: float
    ended: float | None = None
    how: str = ""

    @property
    def seconds(self) -> float:
        """Its seconds; 0 without an end."""
        return 0.0 if self.ended is None else max(self.ended - self.began, 0.0)

    @property
    def line(self) -> str:
        """Its line in the file."""
        return f"{self.began:.3f}\t{'' if self.ended is None else f'{self.ended:.3f}'}\t{self.how}\n"


def file_of(log: Path) -> Path:
    """Return the file beside a job's log."""
    return log.with_suffix(SUFFIX)


def read(file: Path) -> list[JobAttempt]:
    """Return the attempts in a file; none if it is missing or damaged: then nothing is known of them."""
    try:
        return [_parsed(line) for line in file.read_text().splitlines()]
    except (OSError, ValueError):
        return []


def made_s(file: Path) -> float | None:
    """Return the seconds of the attempt that wrote the job's tables; None if none did, or another is at work."""
    attempts = read(file)
    return attempts[-1].seconds if attempts and attempts[-1].how == MADE else None


def lost_s(file: Path) -> float:
    """Return the seconds of all attempts without tables, since the last one with them."""
    return sum(one.seconds for one in read(file) if one.how != MADE)


def begin(log: Path, now: float) -> None:
    """Note that an attempt begins, and until when the one before it was alive, if it was killed."""
    before = read(file_of(log))
    if before and before[-1].how == MADE:
        before = []  # what follows is for other tables
    if before and before[-1].ended is None:
        with suppress(OSError):
            killed = JobAttempt(began=before[-1].began, ended=file_of(log).stat().st_mtime, how=ENDED)
            before = [*before[:-1], killed]
    _write(log, [*before, JobAttempt(began=now)])


def alive(log: Path, now: float) -> None:
    """Date the file anew: its attempt works. Other threads may do so, as nothing is written."""
    with suppress(OSError):
        os.utime(file_of(log), (now, now))


def end(log: Path, now: float, *, made: bool) -> None:
    """Note that it ends. made: its tables are written."""
    attempts = read(file_of(log))
    if attempts:
        last = JobAttempt(began=attempts[-1].began, ended=now, how=MADE if made else ENDED)
        _write(log, [*attempts[:-1], last])


def _parsed(line: str) -> JobAttempt:
    began, ended, how = line.split("\t")
    return JobAttempt(began=float(began), ended=float(ended) if ended else None, how=how)


def _write(log: Path, attempts: list[JobAttempt]) -> None:
    with suppress(OSError):  # a full disk: a job that can work does so
        write_text(file_of(log), "".join(one.line for one in attempts))
