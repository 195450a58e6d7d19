"""Failures of launches: how ranks failed, whose they are, and what a person does about it."""

from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from pathlib import Path

from overlayccl_core import disk
from overlayccl_core.launching.local_ranks import LOG_FILE


class Failure(Enum):
    """How a launch failed."""

    CRASHED = auto()  # the process of a rank ended
    HUNG = auto()  # no rank took a step for too long
    RAISED = auto()  # a rank's work raised
    NOT_JOINED = auto()  # a rank did not join in time
    LAUNCHER = auto()  # the process above the ranks ended, and they with it
    DISK = auto()  # the machine refused a file


@dataclass(eq=False)
class LaunchError(ValueError):
    """Ranks died, hung or raised.

    Attributes:
        said: The event, as a clause.
        kind: How they failed.
        ranks: The first ranks to fail.
        job: Name of their job; None without one.
        at_ns: Time of the error or of its discovery, on the launch's clock; 0: unknown.
        evidence: Kept tracebacks and log of the launch; None until they are kept.
        log: Most telling file of the launch's folder if no rank wrote a traceback.
    """

    said: str
    _: KW_ONLY
    kind: Failure
    ranks: tuple[int, ...] = ()
    job: str | None = None
    at_ns: int = 0
    evidence: Path | None = None
    log: str = LOG_FILE

    def __str__(self) -> str:
        kept = f" What the ranks said is kept: {self.evidence}." if self.evidence else ""
        again = "Run the same command again; if it fails again, try `overlayccl doctor`."
        return (
            f"{self.said}: all ranks were ended, finished work is kept.{kept} "
            f"{disk.MEND + '.' if self.kind is Failure.DISK else again}"
        )


class RefusedError(ValueError):
    """Ranks cannot start from here; the message says how to mend it."""
