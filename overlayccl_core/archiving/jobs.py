"""The jobs that made a results tree, by what Snakemake recorded of each file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core.tables import published, records
from overlayccl_core.tables.records import Record

STAGE = re.compile(r"python -P -m workflow_scripts\.stage (\w+)")  # what runs the stage of a rule
CODE_DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """name: that of its log, `known_ways-tp_mlp`. nodes: that it had to itself; 0: it ran where Snakemake did."""

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
        """The file that its command runs: `overlayccl_core/stages/known_ways.py`."""
        stage = STAGE.match(self.command)
        return f"overlayccl_core/stages/{stage[1]}.py" if stage else ""

    @property
    def seconds(self) -> float:
        """Of wall clock."""
        return self.ended - self.started


def jobs_of(root: Path, files: Iterable[str], measuring: Iterable[str], nodes: int) -> list[Job]:
    """The jobs that made some files below `root`, in the order in which they began.

    measuring: the rules that have all nodes to themselves. Files of one job have records that differ in nothing but
    the times; where they do, they are of several jobs.
    """
    made: dict[str, list[tuple[str, Record]]] = {}
    for file in sorted(files):
        if (record := records.read(published.recorded_with(Path(file)), root)) is not None:
            made.setdefault(repr(replace(record, started=0.0, ended=0.0)), []).append((file, record))
    alone = set(measuring)
    jobs = [
        Job(
            name=Path(record.log[0]).stem if record.log else record.rule,
            rule=record.rule,
            command=record.command,
            code=next((p for p in record.parameters if is_code(p)), ""),
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


def by_file(jobs: Iterable[Job]) -> dict[str, Job]:
    """What a file was made by, as its record says."""
    return {file: job for job in jobs for file in job.outputs}


def is_code(parameter: Any) -> bool:
    """Whether a parameter is a digest of code."""
    return isinstance(parameter, str) and CODE_DIGEST.fullmatch(parameter) is not None
