"""Batches of small Programs for tests of timing, and modules that misbehave."""

import os
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from textwrap import indent
from typing import Any

import psutil

from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration.deployment import Deployment, Tier
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.timing.batch import TimingBatch
from overlayccl_core.timing.launch_store import KeptLaunches
from overlayccl_core.timing.partial import Evidence
from overlayccl_core.timing.reporting import Progress
from tests.on_ranks import here
from tests.small_problems import exchange, strategy

BODIES = {
    "reduce": 'io.write("y", all_reduce(io.read("x")))',
    "gather and slice": 'io.write("y", slice_axis(all_gather(io.read("x")), 0, 8, 64))',
    "twice": 'io.write("y", all_reduce(scale(all_reduce(io.read("x")), 1, 2)))',
}


def deployment(ranks: int = 2) -> Deployment:
    return here(ranks).changed(largest_payload_bytes=2**20)


def two_nodes(ranks: int = 4, launcher: str = "slurm") -> Deployment:
    """Of half of the ranks each."""
    tiers = (Tier(name="node", ranks=ranks // 2), Tier(name="network", ranks=ranks))
    return deployment(ranks).changed(ranks_per_node=ranks // 2, launcher=launcher, tiers=tiers)


def jobs(ranks: int = 2, names: tuple[str, ...] = tuple(BODIES)) -> list[Job]:
    problem = exchange(ranks, {"x": (64,)}, {"y": (64,)})
    words = "all_gather, all_reduce, scale, slice_axis"
    programs = {name: trace_source(strategy(BODIES[name], words), "tried", problem) for name in names}
    return [Job(key=name, program=program, source=emit(program)) for name, program in programs.items()]


def silent(_line: str) -> None:
    """No progress."""


def on_rank(rank: int, source: str, statement: str) -> str:
    """A module that misbehaves on a rank: `statement` runs there before anything else."""
    spoiled = source.replace(
        "def forward():\n", f"def forward():\n    if dist.get_rank() == {rank}:\n        {statement}\n"
    )
    assert spoiled != source
    return spoiled


def broken_job(statement: str, ranks: int = 2, *, rank: int = 1) -> Job:
    """A Program whose module misbehaves on a rank."""
    [job] = jobs(ranks, ("reduce",))
    return Job(key="the broken one", program=job.program, source=on_rank(rank, job.source, statement))


BETWEEN = """

right = forward

def forward():
    generator, answer = right(), None
    while True:
        try:
            event = generator.send(answer)
        except StopIteration:
            return
{step}
"""


def between(source: str, step: str) -> str:
    """A module with a step between it and whoever drives it: from its `event` to the `answer` that it gets."""
    return source + BETWEEN.format(step=indent(step, " " * 8))


def settings(**changes: Any) -> TimingSettings:
    """Quick and indifferent to what else runs on the machine."""
    quick = {
        "seconds": 30.0, "minimum_rounds": 2, "maximum_rounds": 4, "min_sample_ms": 1.0, "max_repeats": 3,
        "lead_in_ms": 0.0, "foreign_cpu_limit": 1.0, "program_timeout_s": 6.0,
    }  # fmt: skip
    return TimingSettings(**{**quick, **changes})


def batch(folder: Path, of: list[Job] | None = None, **changes: Any) -> TimingBatch:
    """Jobs to be timed on two ranks here; launches are kept in the folder."""
    given = {
        "jobs": jobs() if of is None else of, "deployment": deployment(), "settings": settings(),
        "partial_dir": folder, "batch_name": "bench", "code": "code",
    }  # fmt: skip
    return TimingBatch(**{**given, **changes})


def kept_in(folder: Path, progress: Progress = silent) -> KeptLaunches:
    """The launches that a batch keeps in a folder."""
    return KeptLaunches(folder, Evidence(logs=folder / "logs", name="bench"), progress)


def leftovers(folder: Path) -> list[str]:
    """What a batch left that is neither a finished launch nor a folder of launches."""
    return [str(p) for p in folder.rglob("*") if p.is_file() and not fnmatch(p.name, "launch-*.json")]


def processes_of(folder: Path) -> set[int]:
    """Processes of launches in a folder, ranks and what started them: what they print goes to a log there.

    Ranks are forked, so no command line names their launch; the link still does where the log is removed.
    """
    belonging = set()
    for process in psutil.process_iter():
        with suppress(OSError):  # it has ended, or is another's
            if os.readlink(f"/proc/{process.pid}/fd/1").startswith(f"{folder}/"):
                belonging.add(process.pid)
    return belonging
