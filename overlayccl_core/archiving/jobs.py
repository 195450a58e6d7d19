"""The jobs that made a results tree, from Snakemake's record of each file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core.tables import published, records
from overlayccl_core.tables.records import Record

STAGE = re.compile(r"python -P -m workflow_scripts\.stage (\w+)")  # the command of a stage
CODE_DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job. name: its log's, `known_ways-tp_mlp`. nodes: those it had to itself; 0: it ran beside Snakemake."""

    name: str
    rule: str
    command: str
    code: str
    parameters: tuple[Any, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    log: tuple[str, ...] = ()
    started: float
    ended: float
    nodes: int

    @property
    def script(self) -> str:
        """The script of its command: `overlayccl_core/stages/known_ways.py`."""
        stage = STAGE.match(self.command)
        return f"overlayccl_core/stages/{stage[1]}.py" if stage else ""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds."""
        return self.ended - self.started


def jobs_of(root: Path, files: Iterable[str], measuring: Iterable[str], nodes: int) -> list[JobRecord]:
    """Return the jobs of some files below `root`, in order of their start.

    Records of one job's files differ only in their times; files with other differences are of several jobs.

    Args:
        measuring: Rules with all nodes to themselves.
    """
    made: dict[str, list[tuple[str, Record]]] = {}
    for file in sorted(files):
        if (record := records.read(published.recorded_with(Path(file)), root)) is not None:
            made.setdefault(repr(replace(record, started=0.0, ended=0.0)), []).append((file, record))
    alone = set(measuring)
    jobs = [
        JobRecord(
            name=Path(record.log[0]).stem if record.log else record.rule,
            rule=record.rule,
            command=record.command,
            code=next((p for p in record.parameters if isinstance(p, str) and CODE_DIGEST.fullmatch(p)), ""),
            parameters=record.parameters,
            inputs=record.inputs,
            outputs=tuple(file for file, _ in outputs),
            log=record.log,
            started=min(one.started for _, one in outputs),
            ended=max(one.ended for _, one in outputs),
            nodes=nodes if record.rule in alone else 0,
        )
        for outputs in made.values()
        for record in (outputs[0][1],)
    ]
    return sorted(jobs, key=lambda job: (job.started, job.name))
