"""What a job took, for trees that no run has made."""

from pathlib import Path

from overlayccl_core.tables import attempts


def took(log: Path, seconds: float) -> None:
    """Write the attempts of the job of this log: one, which made its tables in so many seconds."""
    attempts.begin(log, 0.0)
    attempts.end(log, seconds, made=True)
