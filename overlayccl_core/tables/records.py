"""What Snakemake recorded of how a file was made: by which rule, from what, with which parameters, when.

The form is Snakemake's own, and may be another in its next version; that is pinned (envs/local.txt).
"""

import ast
import json
import math
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LATEST_S = 253_402_300_799  # the end of the year 9999: dates of Python go no further
FOLDER, INCOMPLETE = Path(".snakemake/metadata"), Path(".snakemake/incomplete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Of one file. started, ended: of its job, in seconds of Unix time."""

    rule: str
    inputs: tuple[str, ...]
    log: tuple[str, ...]
    command: str
    parameters: tuple[Any, ...]
    started: float
    ended: float


def place_of(file: Path) -> Path:
    """Where the record of a file is; both below the folder in which Snakemake ran."""
    return FOLDER / urlsafe_b64encode(file.as_posix().encode()).decode()


def is_incomplete(file: Path, root: Path = Path()) -> bool:
    """Whether the job that makes a file has begun, and nobody has recorded that it ended."""
    return (root / INCOMPLETE / place_of(file).name).exists()


def read(file: Path, root: Path = Path()) -> Record | None:
    """The record of a file; None where there is none that can be read."""
    try:
        told = json.loads((root / place_of(file)).read_text())
        return Record(
            rule=_text(told["rule"]),
            inputs=tuple(map(_text, told["input"])),
            log=tuple(map(_text, told["log"])),
            command=_text(told["shellcmd"] or ""),
            parameters=tuple(ast.literal_eval(_text(text)) for text in told["params"]),
            started=_time(told["starttime"]),
            ended=_time(told["endtime"]),
        )
    except (OSError, ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None  # the last two: what is nested too deep for who reads it


def _text(told: Any) -> str:
    if not isinstance(told, str):
        raise TypeError(f"a text must be one (got {told!r})")
    return told


def _time(told: Any) -> float:
    seconds = float(told)
    if not (math.isfinite(seconds) and 0 <= seconds <= LATEST_S):
        raise ValueError(f"a time must be one of a calendar (got {told!r})")
    return seconds
