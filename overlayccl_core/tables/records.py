"""What Snakemake recorded of how a file was made: by which rule, from what, with which parameters, when.

The form is Snakemake's own, and may be another in its next version; that is pinned (envs/local.txt).
"""

import ast
import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
            rule=told["rule"],
            inputs=tuple(told["input"]),
            log=tuple(told["log"]),
            command=told["shellcmd"] or "",
            parameters=tuple(ast.literal_eval(text) for text in told["params"]),
            started=float(told["starttime"]),
            ended=float(told["endtime"]),
        )
    except (OSError, ValueError, KeyError, TypeError, SyntaxError):
        return None
