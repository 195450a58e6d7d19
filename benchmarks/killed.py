"""Runs that are killed at random, and started again: `python -m benchmarks killed --trials 100 --seed 0` (an hour).

In copies of the repository a run of preset smoke (with three launches of each training, so that there is more to
lose) is killed again and again, and begun again with the same command. The points are drawn uniformly over the wall
time of an undisturbed run: one inside of a job comes as long after that job began, wherever its run is by then.
What is killed (SIGKILL) is drawn, too: Snakemake, the command of a rule, the process that starts ranks, one of the
ranks; one further up where there is none. Where Snakemake was killed the next run begins at once, or when nothing
of the one before is left. Then, for each of the rules that have not been hit often enough, more are aimed at it.

What must hold: the run goes on without what was killed, or the next one does by itself, and ends well; ranks end
soon after their run, and no process is left; a launch that had ended by itself when something was killed is kept,
or its samples are in its table (or those of a repeated one that others disturbed less); no Program is blamed; at
the end all tables are whole, and nothing is to be done.
"""

import argparse
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.columns import line
from benchmarks.copies import KINDS, SMOKE, Copy, Finished, Job

AIMED = {"probe": 15, "bench": 15, "train": 15}  # rule -> trials that hit it, at least
KILLS = 20  # of one tree
EARLY = 0.6  # share of a job in which blows that are aimed at it fall: one that goes on is shorter
RANKS_S = (
    20.0  # in which ranks have ended whose run died: jobs look twice a second, and keep what was measured
)
LEFT_S = 90.0  # in which everything of a run that died has ended
STUCK_S = 1800.0
CHANGED = {"train: {launches: 1,": "train: {launches: 3,"}


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
        took_s, jobs = Copy(Path(folder) / "whole", CHANGED).to_the_end()
        yield f"undisturbed: {took_s:.0f} s"
        told = Told()
        while len(told.trials) < asked.trials:
            points = draw.uniform(0.0, took_s, min(KILLS, asked.trials - len(told.trials)))
            yield from _tree(Path(folder), [blow_at(float(at), jobs) for at in np.sort(points)], draw, told)
        while missing := _missing(told.trials):
            own = [job for rule in missing for job in jobs if job.rule == rule]
            which = draw.integers(len(own), size=min(KILLS, len(missing)))
            share = draw.uniform(0.0, EARLY, len(which))
            points = [
                own[k].began_s + of * (own[k].ended_s - own[k].began_s)
                for k, of in zip(which, share, strict=True)
            ]
            yield from _tree(Path(folder), [blow_at(float(at), jobs) for at in sorted(points)], draw, told)
    yield from summary(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blow:
    """Kill something so long after a job began, or (inside False) after it ended; None: after the run began.

    at_s: the point of an undisturbed run that it stands for.
    """

    at_s: float
    job: str | None
    inside: bool
    after_s: float


def blow_at(at_s: float, jobs: Sequence[Job]) -> Blow:
    """The blow that stands for a point of an undisturbed run. jobs: in the order in which they began."""
    inside = [job for job in jobs if job.began_s <= at_s < job.ended_s]
    if inside:
        return Blow(at_s=at_s, job=inside[-1].name, inside=True, after_s=at_s - inside[-1].began_s)
    before = max((job for job in jobs if job.ended_s <= at_s), key=lambda job: job.ended_s, default=None)
    if before is None:
        return Blow(at_s=at_s, job=None, inside=False, after_s=at_s)
    return Blow(at_s=at_s, job=before.name, inside=False, after_s=at_s - before.ended_s)


@dataclass(slots=True, kw_only=True)
class Trial:
    """What was killed, at which point, in which jobs' time, and what did not hold afterwards.

    killed: on the clock of `time.monotonic`. kept: launches that had ended by themselves and were in no table yet.
    ended_s: from the kill until nothing of the run was left; None: it goes on, or the next began at once.
    """

    victim: str
    at_s: float
    killed: float
    working: tuple[str, ...]
    kept: int
    ended_s: float | None = None
    went_on: bool = True
    wrong: list[str] = field(default_factory=list)

    def line(self, number: int) -> str:
        """A row of the report."""
        left = "at once" if self.ended_s is None else f"{self.ended_s:.1f} s"
        left = "goes on" if self.went_on else left
        head = f"  {number:4d} {self.at_s:5.0f} s  {self.victim:10s}{left:>10s}{self.kept:4d} kept"
        return f"{head}  {' '.join(self.working) or '-':24s} {'; '.join(self.wrong) or 'ok'}"


@dataclass(slots=True)
class Told:
    """All trials; and of each tree what did not hold at its end, and how many launches were at stake."""

    trials: list[Trial] = field(default_factory=list)
    ends: list[list[str]] = field(default_factory=list)
    launches: int = 0


def _missing(trials: Sequence[Trial]) -> list[str]:
    """The rules that have to be hit more often, once for each time."""
    hit = Counter(rule for one in trials for rule in one.working)
    return [rule for rule, least in AIMED.items() for _ in range(least - hit[rule])]


def _tree(folder: Path, plan: Sequence[Blow], draw: np.random.Generator, told: Told) -> Iterator[str]:
    """One copy: its blows, its end."""
    tree = Tree(Copy(folder / f"tree-{len(told.ends)}", CHANGED), draw)
    for blow in plan:
        before = tree.last
        struck = tree.strike(blow)
        if before is not None:  # what became of it is known by now
            yield before.line(len(told.trials))
        if not struck or tree.last is None:
            break
        told.trials.append(tree.last)
    tree.to_the_end()
    if tree.last is not None:
        yield tree.last.line(len(told.trials))
    wrong = tree.wrong()
    told.ends.append(wrong)
    told.launches += len(tree.seen)
    if wrong:
        yield f"  a tree at its end: {'; '.join(wrong)} (it stays in {tree.kept_aside()})"
    else:
        yield f"  a tree to its end: {len(tree.seen)} launches had ended when something was killed, none is lost"
    shutil.rmtree(tree.copy.root)


class Tree:
    """A copy in which a run is killed and begun again. last: the newest trial. seen: launches at stake."""

    def __init__(self, copy: Copy, draw: np.random.Generator) -> None:
        self.copy = copy
        self.seen: dict[tuple[str, str], Finished] = {}
        self.last: Trial | None = None
        self._draw = draw
        self._odd: list[str] = []  # of no trial
        self._begin()

    def _begin(self) -> None:
        self._run = self.copy.begin()
        self._began = time.monotonic()
        self._since: dict[
            tuple[str, bool], float
        ] = {}  # job, whether at work or done -> since when, in this run

    def strike(self, blow: Blow) -> bool:
        """Kill something when the blow is due. False: all was done before, or nothing happens any more."""
        while self._wait(blow):
            if (struck := self._struck(blow)) is not None:
                self.last, finished = struck
                self.seen |= {(one.file, one.sha256): one for one in finished}
                if self.last.victim == "snakemake":
                    self._run.wait()
                    self._ended(self.last, wait=bool(self._draw.random() < 0.5))
                    self._begin()
                self._look()
                return True
        return False

    def _wait(self, blow: Blow | None) -> bool:
        """Until the blow is due; runs that end because of the last are begun again. False: all is done."""
        end = time.monotonic() + STUCK_S
        while time.monotonic() < end:
            if (code := self._run.poll()) is not None:
                if code == 0 or self.last is None or not self.last.went_on:
                    self._odd += [f"a run ended with {code}, though nothing was killed"] if code else []
                    return False
                self._ended(self.last)
                self._begin()
            if blow is not None and self._is_due(blow):
                return True
            time.sleep(0.05)
        self._odd.append(f"nothing happened for {STUCK_S:.0f} s")
        self._run.kill()
        self._run.wait()
        return False

    def _is_due(self, blow: Blow) -> bool:
        now = time.monotonic()
        if blow.job is None:
            return now - self._began >= blow.after_s
        done = self.copy.is_done(blow.job)
        if done and blow.inside:
            return True  # what was left of a job that went on is shorter
        if done or blow.job in self.copy.at_work():
            self._since.setdefault((blow.job, done), now)
        since = self._since.get((blow.job, not blow.inside))
        return since is not None and now - since >= blow.after_s

    def _struck(self, blow: Blow) -> tuple[Trial, list[Finished]] | None:
        """What was killed, and the launches that were kept then; None where the run ends just now."""
        wanted = KINDS[: int(self._draw.integers(len(KINDS))) + 1]
        finished, working = self.copy.finished(), self.copy.at_work()
        while self._run.poll() is None:
            kinds = self.copy.of_kinds(self._run)
            kind = next(k for k in reversed(wanted) if kinds[k])
            with suppress(ProcessLookupError):  # that one has just ended
                os.kill(int(self._draw.choice(kinds[kind])), signal.SIGKILL)
                rules = tuple(sorted(set(working.values())))
                trial = Trial(
                    victim=kind, at_s=blow.at_s, working=rules, kept=len(finished), killed=time.monotonic()
                )
                return trial, finished
        return None

    def _ended(self, trial: Trial, *, wait: bool = True) -> None:
        """The run is over because of a blow; wait until nothing of it is left."""
        trial.went_on = False
        if wait:
            over, ranks_s = time.monotonic(), 0.0
            while self.copy.processes() and time.monotonic() - over < LEFT_S:
                ranks_s = time.monotonic() - over if self.copy.ranks() else ranks_s
                time.sleep(0.05)
            trial.ended_s = time.monotonic() - trial.killed
            if left := self.copy.processes():
                trial.wrong.append(f"processes are left: {left}")
            if ranks_s >= RANKS_S:
                trial.wrong.append(f"ranks worked on for {ranks_s:.0f} s")
        self._look()

    def _look(self) -> None:
        """Whether a launch is lost; each is said once."""
        for key in [key for key, one in self.seen.items() if self.copy.is_lost(one)]:
            del self.seen[key]
            (self._odd if self.last is None else self.last.wrong).append(f"lost: {key[0]}")

    def to_the_end(self) -> None:
        """Without any more blows."""
        self._wait(None)

    def wrong(self) -> list[str]:
        """What does not hold at the end."""
        lost = [f"lost: {one.file}" for one in self.seen.values() if self.copy.is_lost(one)]
        return [*self._odd, *lost, *self.copy.wrong(self._run)]

    def kept_aside(self) -> Path:
        """Where what went wrong can be looked at."""
        aside = Path(tempfile.mkdtemp(prefix="overlayccl-killed-"))
        shutil.copytree(self.copy.root, aside / "tree", symlinks=True)
        return aside


def summary(told: Told) -> Iterator[str]:
    """Of all trials: what was hit, how long processes were left, what was wrong."""
    trials = told.trials
    yield line("killed", "trials", "went on", "ended s", "at most")
    for victim in KINDS:
        those = [one for one in trials if one.victim == victim]
        seconds = [one.ended_s for one in those if one.ended_s is not None]
        ended = (f"{np.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else ("-", "-")
        yield line(victim, str(len(those)), str(sum(one.went_on for one in those)), *ended)
    hit = Counter(rule for one in trials for rule in one.working)
    yield f"  inside of: {', '.join(f'{rule} {times}' for rule, times in hit.most_common())}"
    at_stake = sum(one.kept > 0 for one in trials)
    yield f"  launches that had ended were at stake in {at_stake} trials, {told.launches} different ones"
    wrong = sum(bool(one.wrong) for one in trials)
    ends = sum(bool(end) for end in told.ends)
    yield f"  {len(trials)} trials, {wrong} with something wrong; {len(told.ends)} trees, {ends} wrong at their end"
