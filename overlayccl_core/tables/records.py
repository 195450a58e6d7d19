"""Snakemake's records of files: their rule, inputs, parameters and times.

The form is Snakemake's own and may change in its next version, so that is pinned (envs/local.txt).
"""

import ast
import json
import math
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LATEST_S = 253_402_300_799  # the end of the year 9999, Python's last date
FOLDER, INCOMPLETE = Path(".snakemake/metadata"), Path(".snakemake/incomplete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Record of one file. started, ended: of its job, in seconds of Unix time."""

    rule: str
    inputs: tuple[str, ...]
    log: tuple[str, ...]
    command: str
    parameters: tuple[Any, ...]
    started: float
    ended: float


def record_path(file: Path) -> Path:
    """Return the path of a file's record; both are relative to Snakemake's working folder."""
    return FOLDER / urlsafe_b64encode(file.as_posix().encode()).decode()


def is_incomplete(file: Path, root: Path = Path()) -> bool:
    """Return whether the job of a file began and has no recorded end."""
    return (root / INCOMPLETE / record_path(file).name).exists()


def read(file: Path, root: Path = Path()) -> Record | None:
    """Return the record of a file; None if it is missing or unreadable."""
    try:
        told = json.loads((root / record_path(file)).read_text())
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
        return None  # the last two: nested too deep for the parser


def _text(told: Any) -> str:
    if not isinstance(told, str):
        raise TypeError(f"a text must be one (got {told!r})")
    return told


def _time(told: Any) -> float:
    seconds = float(told)
    if not (math.isfinite(seconds) and 0 <= seconds <= LATEST_S):
        raise ValueError(f"a time must be one of a calendar (got {told!r})")
    return seconds
