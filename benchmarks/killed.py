"""Runs that are killed at random, and started again: `python -m benchmarks killed --trials 100 --seed 0` (an hour).

In copies of the repository a run of preset smoke is begun, killed at points that are drawn uniformly over the time
that it takes undisturbed, and begun again each time with the same command. What is killed (SIGKILL) is drawn, too:
Snakemake, the command of a rule, the process that starts ranks, a rank; one further up where there is none. Half of
the time the next run begins at once, else when nothing of the one before is left. Then, for each of the rules that
have not been hit often enough, more are aimed at it.

What must hold: the run goes on without what was killed, or the next one does by itself, and ends well; no process
is left; a launch that was finished when something was killed is still there, or in its table; at the end all tables
are whole, and nothing is to be done.
"""

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.columns import line
from overlayccl_core.backends import processes
from overlayccl_core.tables.sidecar import check_unchanged
from tests.workflow.repository import copy_to

AIMED = {"probe": 15, "bench": 15, "train": 15}  # rule -> trials that hit it, at least
VICTIMS = ("snakemake", "command", "starter", "rank")
KILLS = 10  # of one tree
SEES_S = (
    20.0  # in which ranks have ended whose run died: jobs look twice a second, and keep what was measured
)
LEFT_S = 90.0  # in which everything of a run that died has ended
STUCK_S = 1800.0
SMOKE = (
    "--profile",
    "local",
    "all",
    "--config",
    "preset=smoke",
    "problems=tp_mlp,grad_ar",
    "models=nano-small",
)
TREE = "results/local-smoke"


def options() -> argparse.ArgumentParser:
    """Its options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks killed")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def report(asked: argparse.Namespace) -> Iterator[str]:
    """A line for each trial as it comes, then what they come to."""
    yield f"seed {asked.seed}, {asked.trials} trials and those that are aimed; {' '.join(SMOKE)}"
    draw = np.random.default_rng(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Tree(Path(folder) / "whole")
        took_s = whole.to_the_end()
        yield f"undisturbed: {took_s:.0f} s"
        trials: list[Trial] = []
        while len(trials) < asked.trials:
            points = np.sort(draw.uniform(0.0, took_s, min(KILLS, asked.trials - len(trials))))
            plan = [Blow(after_s=float(gap)) for gap in np.diff(points, prepend=0.0)]
            yield from _tree(Path(folder), plan, draw, trials)
        while missing := _missing(trials):
            plan = [
                Blow(rule=rule, after_s=float(draw.uniform(0.0, took_s / 10))) for rule in missing[:KILLS]
            ]
            yield from _tree(Path(folder), plan, draw, trials)
    yield from summary(trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """Kill something so long after a run began; of a rule: after its job began, while that works."""

    after_s: float
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was killed, in which jobs' time, and what did not hold afterwards. ended_s: until nothing was left.

    went_on: the run did not end.
    """

    victim: str
    working: tuple[str, ...]
    wrong: tuple[str, ...]
    kept: int
    ended_s: float | None
    went_on: bool = False

    def line(self, number: int) -> str:
        """A row of the report."""
        left = "at once" if self.ended_s is None else f"{self.ended_s:.1f} s"
        left = "goes on" if self.went_on else left
        working = " ".join(self.working) or "-"
        return f"  {number:4d} {self.victim:10s}{left:>10s}  {working:32s} {'; '.join(self.wrong) or 'ok'}"


def _missing(trials: Sequence[Trial]) -> list[str]:
    """The rules that have to be hit more often, once for each time."""
    hit = Counter(rule for one in trials for rule in one.working)
    return [rule for rule, least in AIMED.items() for _ in range(least - hit[rule])]


def _tree(
    folder: Path, plan: Sequence[Blow], draw: np.random.Generator, trials: list[Trial]
) -> Iterator[str]:
    tree = Tree(folder / f"tree-{len(trials)}")
    run = tree.begin()
    for blow in plan:
        if not tree.wait(run, blow):
            break  # it ended before: the points were drawn over the time of another run
        victim, pid = tree.victim(run, int(draw.integers(len(VICTIMS))))
        seen, working, finished = time.time(), tree.working(), tree.finished()
        os.kill(pid, signal.SIGKILL)
        wrong: list[str] = []
        ended_s = None
        ends = _ends(run, LEFT_S)  # or it goes on: who was hit in a launch is tried once more
        if ends and (victim != "snakemake" or draw.random() < 0.5):
            ended_s, worked_s = tree.left_s()
            wrong += [] if ended_s < LEFT_S else [f"processes are left: {tree.processes()}"]
            wrong += [] if worked_s < SEES_S else [f"ranks worked on for {worked_s:.0f} s"]
        if ends:
            run = tree.begin()
        tree.kept = dict.fromkeys(finished, seen) | tree.kept
        wrong += tree.lost()
        trials.append(
            Trial(
                victim=victim,
                working=working,
                wrong=tuple(wrong),
                kept=len(finished),
                ended_s=ended_s,
                went_on=not ends,
            )
        )
        yield trials[-1].line(len(trials))
    if not _ends(run, STUCK_S):
        run.kill()
    if wrong := tree.wrong(run):
        trials.append(Trial(victim="the end", working=(), wrong=tuple(wrong), kept=0, ended_s=None))
        yield trials[-1].line(len(trials))
    else:
        yield f"  a tree to its end: {len(tree.kept)} finished launches were there at kills, none is lost"
        shutil.rmtree(tree.root)


@dataclass(slots=True)
class Tree:
    """A copy of the repository in which runs are made."""

    root: Path
    kept: dict[tuple[str, str], float] = field(
        default_factory=dict
    )  # (file, sha256) -> when it was first seen

    def __post_init__(self) -> None:
        self.root.mkdir()
        copy_to(self.root)

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

    def to_the_end(self) -> float:
        """Seconds of an undisturbed run."""
        began = time.monotonic()
        run = self.begin()
        run.wait()
        if wrong := self.wrong(run):
            raise ValueError(f"an undisturbed run goes wrong: {'; '.join(wrong)}")
        return time.monotonic() - began

    def wait(self, run: "subprocess.Popen[bytes]", blow: Blow) -> bool:
        """Until the blow is due; False where the run ended before."""
        end = time.monotonic() + STUCK_S
        while blow.rule is not None and blow.rule not in self.working():
            if run.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.05)
        due = time.monotonic() + blow.after_s
        while time.monotonic() < due and (blow.rule is None or blow.rule in self.working()):
            if run.poll() is not None:
                return False
            time.sleep(0.05)
        return run.poll() is None

    def working(self) -> tuple[str, ...]:
        """The rules whose commands are at work."""
        return tuple(sorted({rule for pid in self.processes() if (rule := _rule_of(pid))}))

    def victim(self, run: "subprocess.Popen[bytes]", wanted: int) -> tuple[str, int]:
        """A process of the kind that is wanted, or of the next one above it."""
        below = processes.tree(run.pid)
        ranks_of = {"snakemake": [run.pid], "command": [], "starter": [], "rank": []}
        for pid in below:
            if processes.mentions(pid, "torch_ranks.start"):
                parent = below[pid].parent
                kind = "rank" if processes.mentions(parent, "torch_ranks.start") else "starter"
                ranks_of[kind].append(pid)
            elif _rule_of(pid):
                ranks_of["command"].append(pid)
        kind = next(k for k in reversed(VICTIMS[: wanted + 1]) if ranks_of[k])
        return kind, max(ranks_of[kind])

    def processes(self) -> list[int]:
        """Those that work in this copy."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._here(pid)]

    def _here(self, pid: int) -> bool:
        try:
            state = processes.state(pid)
            return Path(f"/proc/{pid}/cwd").readlink() == self.root and state is not None and state.alive
        except OSError:
            return False

    def left_s(self) -> tuple[float, float]:
        """Seconds until no process of it is there, and until none is a rank."""
        began = time.monotonic()
        worked_s = 0.0
        while (left := self.processes()) and time.monotonic() - began < LEFT_S:
            if any(processes.mentions(pid, "torch_ranks.start") for pid in left):
                worked_s = time.monotonic() - began
            time.sleep(0.05)
        return time.monotonic() - began, worked_s

    def finished(self) -> set[tuple[str, str]]:
        """(file, sha256) of the launches that are kept."""
        partial = self.root / TREE / ".partial"
        files = (file for file in partial.glob("*/launch-*") if file.suffix in (".parquet", ".json"))
        return {(str(file.relative_to(self.root)), _sha256(file)) for file in files}

    def lost(self) -> list[str]:
        """Launches that were finished when something was killed, and are neither there nor in a table since."""
        lost = []
        for (file, sha256), since in sorted(self.kept.items()):
            path = self.root / file
            away = path.parents[1] / "written" / path.parent.name / path.name
            there = any(one.exists() and _sha256(one) == sha256 for one in (path, away, path))
            if not there and not self.done_since(path.parent.name, since):
                lost.append(f"lost: {file}")
        return lost

    def done_since(self, batch: str, since: float) -> bool:
        """Whether the job of a batch of launches (`bench-tp_mlp-<key>`, `confirm-0-<key>`) has ended well since."""
        ended = (self.root / TREE / "logs").glob("*.tsv")  # written then
        return any(batch.startswith(f"{one.stem}-") and one.stat().st_mtime > since for one in ended)

    def wrong(self, run: "subprocess.Popen[bytes]") -> list[str]:
        """What does not hold at the end."""
        said = (self.root / "said.txt").read_text(errors="replace")
        wrong = [] if run.returncode == 0 else [f"the last run ended with {run.returncode}: {said[-400:]!r}"]
        wrong += [word for word in ("--unlock", "Traceback") if word in said]
        wrong += [f"left: {pid}" for pid in self.processes()]
        wrong += self.lost()
        tables = list((self.root / TREE).rglob("*.parquet"))
        for table in tables:
            try:
                check_unchanged(table)
            except ValueError as error:
                wrong.append(str(error))
            if not table.with_suffix(".sidecar.json").exists():
                wrong.append(f"{table.name} has no sidecar")
        wrong += [f"left: {p.name}" for p in (self.root / TREE).rglob(".*.tmp")]
        wrong += [f"left: {p.name}" for p in (self.root / TREE / ".partial").glob("*/*")]
        wrong += [f"still said to be at work: {rule}" for rule in self.working()]
        again = self.begin()
        again.wait()
        if "Nothing to be done" not in (self.root / "said.txt").read_text()[len(said) :]:
            wrong.append("there is still something to do")
        return wrong


def _rule_of(pid: int) -> str:
    """The rule that a process is the command of; empty for others, shells among them."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if "--log" in words and words[1:2] == ["-m"] and words[2].startswith("workflow_scripts."):
            return words[2].partition(".")[2]
    return ""


def _ends(run: "subprocess.Popen[bytes]", within_s: float) -> bool:
    try:
        run.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def summary(trials: Sequence[Trial]) -> Iterator[str]:
    """Of all trials: what was hit, how long processes were left, what was wrong."""
    yield line("killed", "trials", "ended s", "at most")
    for victim in VICTIMS:
        those = [one for one in trials if one.victim == victim]
        seconds = [one.ended_s for one in those if one.ended_s is not None]
        told = (f"{np.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("-", "-")
        yield line(victim, str(len(those)), *told)
    hit = Counter(rule for one in trials for rule in one.working)
    yield f"  inside of: {', '.join(f'{rule} {times}' for rule, times in hit.most_common())}"
    yield f"  finished launches were there in {sum(one.kept > 0 for one in trials)} of them"
    wrong = sum(bool(one.wrong) for one in trials)
    yield f"  {len(trials)} trials, {wrong} with something wrong"
