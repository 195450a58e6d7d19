"""Runs of preset smoke in copies of the repository, looked at from outside: processes, jobs, launches kept."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.launching import processes
from overlayccl_core.measuring.job_status import MEASURED
from overlayccl_core.tables import attempts, records
from overlayccl_core.tables.rule_job import RUNNER
from overlayccl_core.tables.sidecar import check_unchanged, path_of
from tests.workflow.repository import copy_to

SMOKE = (
    *("--profile", "local", "all"),
    *("--config", "preset=smoke", "problems=tp_mlp,grad_ar", "models=nano-small"),
)
TREE = "results/local-smoke"
STARTS = "torch_ranks.fork_server"  # in the command of what starts ranks, and of the ranks that it forks
KINDS = ("snakemake", "command", "starter", "rank")  # each below the one before it
SAMPLES = ("samples_us", "steps_us")  # columns of what ranks measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A rule's command: name of its log (`bench-tp_mlp`), rule, and when it worked, in seconds of its run."""

    name: str
    rule: str
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A launch that ended by itself and is kept until its table is written.

    launch: of a training, which may have made it twice; None: of a batch of timings, where one such launch counts.
    foreign: what others took of the CPU. samples: what its ranks measured, in no order.
    """

    file: str
    sha256: str
    launch: int | None
    foreign: float
    samples: frozenset[tuple[float, ...]]


@dataclass(slots=True)
class Copy:
    """A copy of the repository in which runs are made. changed: text of config/config.yaml -> what it becomes."""

    root: Path
    changed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir()
        copy_to(self.root)
        config = self.root / "config/config.yaml"
        text = config.read_text()
        for old, new in self.changed.items():
            if text.count(old) != 1:
                raise ValueError(
                    f"{config.name} has {old!r} {text.count(old)} times: say what else is to be changed"
                )
            text = text.replace(old, new)
        config.write_text(text)

    def begin(self) -> "subprocess.Popen[bytes]":
        """The command."""
        with (self.root / "said.txt").open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "snakemake", *SMOKE],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def to_the_end(self) -> tuple[float, list[Job]]:
        """Seconds of an undisturbed run, and its jobs."""
        began, on_clock = time.monotonic(), time.time()
        run = self.begin()
        run.wait()
        took_s = time.monotonic() - began
        if wrong := self.wrong(run):
            raise ValueError(f"an undisturbed run goes wrong: {'; '.join(wrong)}")
        return took_s, sorted(self._jobs(on_clock), key=lambda job: job.began_s)

    def _jobs(self, since: float) -> Iterator[Job]:
        for name, record in {Path(one.log[0]).stem: one for _, one in self._recorded()}.items():
            began_s, ended_s = record.started - since, record.ended - since
            yield Job(name=name, rule=record.rule, began_s=began_s, ended_s=ended_s)

    def _recorded(self) -> Iterator[tuple[Path, records.Record]]:
        """The files of the tree of which Snakemake knows the job."""
        for path in sorted(_files(self.root / TREE)):
            record = records.read(path.relative_to(self.root), self.root)
            if record is not None and record.log:
                yield path, record

    def at_work(self) -> dict[str, str]:
        """Job -> rule, of commands that are at work."""
        return dict(job for pid in self.processes() if (job := _job_of(pid)))

    def is_done(self, job: str) -> bool:
        """Whether a job has ended well."""
        return attempts.made_s(attempts.file_of(self.root / TREE / "logs" / f"{job}.log")) is not None

    def of_kinds(self, run: "subprocess.Popen[bytes]") -> dict[str, list[int]]:
        """The processes of a run by what they are."""
        below = processes.tree(run.pid)
        found: dict[str, list[int]] = {kind: [] for kind in KINDS} | {"snakemake": [run.pid]}
        for pid in sorted(below):
            if processes.mentions(pid, STARTS):
                forked = processes.mentions(below[pid].parent, STARTS)
                found["rank" if forked else "starter"].append(pid)
            elif _job_of(pid):
                found["command"].append(pid)
        return found

    def processes(self) -> list[int]:
        """Those that work in this copy."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._here(pid)]

    def _here(self, pid: int) -> bool:
        try:
            state = processes.state(pid)
            return Path(f"/proc/{pid}/cwd").readlink() == self.root and state is not None and state.alive
        except OSError:
            return False

    def ranks(self) -> list[int]:
        """Those of them that are ranks, or start some."""
        return [pid for pid in self.processes() if processes.mentions(pid, STARTS)]

    def finished(self) -> list[Finished]:
        """The launches that are kept by now and ended by themselves."""
        partial = self.root / TREE / ".partial"
        batches = (partial, partial / "written")
        files = [
            file for file in _files(partial) if file.parents[1] in batches and file.name.startswith("launch-")
        ]
        return [one for file in sorted(files) if (one := self._finished(file)) is not None]

    def _finished(self, file: Path) -> Finished | None:
        try:
            data = file.read_bytes()
            kept = json.loads(data)
        except (OSError, ValueError):
            return None  # it was put away just now
        if not kept["complete"]:
            return None
        rows = pl.DataFrame(_told(kept["rows"]))
        return Finished(
            file="/".join(part for part in file.relative_to(self.root / TREE).parts[1:] if part != "written"),
            sha256=hashlib.sha256(data).hexdigest(),
            launch=int(rows["launch"][0]) if "steps_us" in rows.columns else None,
            foreign=float(rows["foreign_cpu_share"].max()),  # type: ignore[arg-type]
            samples=_samples(rows),
        )

    def is_lost(self, one: Finished) -> bool:
        """Whether a launch is neither kept any more nor in a table, nor one there that others disturbed less."""
        if any(other.file == one.file and other.sha256 == one.sha256 for other in self.finished()):
            return False
        job = one.file.partition("/")[0].rpartition("-")[0]
        tables = [
            frame for frame in self.measured(self.job_of_batch(job)) if "foreign_cpu_share" in frame.columns
        ]
        if any(one.samples & _samples(frame) for frame in tables):
            return False
        if one.launch is not None:
            tables = [frame.filter(pl.col("launch") == one.launch) for frame in tables]
        return not any((frame["foreign_cpu_share"] < one.foreign).any() for frame in tables)

    def job_of_batch(self, batch: str) -> str:
        """`confirm` of the batch `confirm-0`: the job whose name it begins with."""
        names = [log.stem for log in (self.root / TREE / "logs").glob("*.log")]
        return max((name for name in names if f"{batch}-".startswith(f"{name}-")), key=len, default=batch)

    def measured(self, job: str) -> list[pl.DataFrame]:
        """The tables of a job in which samples of ranks stand."""
        frames = []
        for path, record in self._recorded():
            if Path(record.log[0]).stem == job and path.suffix == ".parquet":
                with suppress(FileNotFoundError):  # the run is making it anew
                    frames.append(pl.read_parquet(path))
        return [frame for frame in frames if set(SAMPLES) & set(frame.columns)]

    def wrong(self, run: "subprocess.Popen[bytes]") -> list[str]:
        """What does not hold at the end of a tree; then the same command once more."""
        said = (self.root / "said.txt").read_text(errors="replace")
        wrong = [] if run.returncode == 0 else [f"the last run ended with {run.returncode}: {said[-400:]!r}"]
        wrong += [f"it says {word}" for word in ("--unlock", "Traceback") if word in said]
        wrong += [f"left: process {pid}" for pid in self.processes()]
        for table in (self.root / TREE).rglob("*.parquet"):
            try:
                check_unchanged(table)
            except ValueError as error:
                wrong.append(str(error))
            if not path_of(table).exists():
                wrong.append(f"{table.name} has no sidecar")
        wrong += [f"left: {p.name}" for p in (self.root / TREE).rglob(".*.tmp")]
        wrong += [f"left: {p.name}" for p in (self.root / TREE / ".partial").glob("*/*")]
        wrong += [f"{name} blames a Program: {status}" for name, status in self._blamed()]
        again = self.begin()
        again.wait()
        if "Nothing to be done" not in (self.root / "said.txt").read_text(errors="replace")[len(said) :]:
            wrong.append("there is still something to do")
        return wrong

    def _blamed(self) -> Iterator[tuple[str, str]]:
        """(table, status) of Programs and arms that were not measured: none has a fault of its own."""
        for table in (self.root / TREE).rglob("*.parquet"):
            frame = pl.read_parquet(table)
            if {"status", "foreign_cpu_share"} <= set(frame.columns):
                yield from ((table.name, one) for one in sorted(set(frame["status"]) - {*map(str, MEASURED)}))


def _job_of(pid: int) -> tuple[str, str] | None:
    """(job, rule) that a process is the command of; None for others, shells among them."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if "--log" in words and words[1:3] == ["-P", "-m"] and words[3] == RUNNER:
            return Path(words[words.index("--log") + 1]).stem, words[4]
    return None


def _files(folder: Path) -> Iterator[Path]:
    """Those below a folder. A run at work takes folders away meanwhile, which `glob` does not bear."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is looked at here."""
    names = ("launch", "foreign_cpu_share", *SAMPLES)
    return [{name: row[name] for name in names if name in row} for row in rows]


def _samples(rows: pl.DataFrame) -> frozenset[tuple[float, ...]]:
    of: Sequence[Any] = [name for name in SAMPLES if name in rows.columns]
    return frozenset(tuple(one) for name in of for one in rows[name].to_list() if one)
