"""The worker of a timed launch: load the plan's modules and time them in rounds."""

import gc
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import torch

from overlayccl_core.backends.measured import FirstCall
from overlayccl_core.backends.plan import Calibration, LaunchPlan, PlannedJob, visit_us
from overlayccl_core.backends.race import Races
from overlayccl_core.backends.rank import Rank, compile_together, run_rank
from overlayccl_core.backends.rounds import (
    LONG,
    TWO,
    VISIT_OVERHEAD_S,
    fewest_rounds,
    lead_in_calls,
    planned_rounds,
    repeats_for,
    visits,
)
from overlayccl_core.backends.torch_ranks.driver import Emitted, InputPool, Inputs, Prepared, collect, run
from overlayccl_core.backends.torch_ranks.matmul import beside
from overlayccl_core.launching.status import NO_JOB, Phase
from overlayccl_core.program.nodes import Port

COLD_TIMES = 2  # our margin: assumed upper limit of first call over warm call
MEETINGS = 3  # of the calibration
SHUTDOWN_S = 1.0
OVERTIME = 1.25  # of the budget: then a launch ends with too few rounds


class _Timer:
    """One rank's part of a timed launch."""

    def __init__(self, rank: Rank, plan: LaunchPlan) -> None:
        self.rank = rank
        self.plan = plan
        self.stamps = plan.open_stamps(rank.folder) if rank.index == 0 else None
        self.samples: list[list[float]] = [[] for _ in plan.jobs]  # us, by visit; the same on all ranks
        self.modules: list[tuple[Emitted, Inputs]] = []
        self.repeats: tuple[int, ...] = ()
        self.lead_in: tuple[int, ...] = ()
        self.visit_s: list[float] = []
        self.rounds = self.fewest = 0
        self.began_ns = plan.started_ns  # of the budget
        self.graphs = 0  # compiled before timing
        self.first: list[FirstCall] = []  # of this rank, then of all

    def prepare(self) -> None:
        """Load and connect every module, prepare its inputs."""
        self.rank.status.enter(Phase.PREPARING)
        self.rank.make_usual_groups()
        paths = [self.rank.folder / job.module for job in self.plan.jobs]
        compile_together(self.rank, paths)
        pool = InputPool(self.plan.settings.seed + self.rank.index, self.rank.device)
        for index, job in enumerate(self.plan.jobs):
            self.rank.status.work_on(index)
            module = Emitted.load(paths[index], f"emitted_{index}", job, self.rank)
            self.modules.append((module, pool.take(_ports(job))))
        if self.rank.is_lazy:
            self._compile()

    def _compile(self) -> None:
        """Call every module once: trace, compile and load its graphs.

        It is outside of the budget: it happens once, as compiled graphs are kept, and takes its time.
        """
        for index, (module, inputs) in enumerate(self.modules):
            self.rank.status.work_on(index)
            (graphs, seconds), start = self.rank.compiled(), self.rank.now_ns()
            self._call(module, inputs, 1)
            took_us = (self.rank.now_ns() - start) / 1e3
            now_graphs, now_seconds = self.rank.compiled()
            self.first.append(
                FirstCall(us=took_us, compile_us=(now_seconds - seconds) * 1e6, graphs=now_graphs - graphs)
            )
        [spent_s] = self.rank.largest(self._spent_s())
        self.began_ns += round(spent_s * 1e9)

    def calibrate(self) -> None:
        """Set repeats of every job and the number of rounds, the same on all ranks."""
        self.rank.status.enter(Phase.CALIBRATING)
        settings = self.plan.settings
        seconds = []
        for index in range(len(self.plan.jobs)):
            with self._beside(index):
                seconds.append(self._call_s(index))
        self.first = self._first_of_all()
        self.repeats = tuple(map(self._repeats, seconds))
        self.lead_in = tuple(
            lead_in_calls(s, lead_in_ms=settings.lead_in_ms, max_repeats=settings.max_repeats)
            for s in seconds
        )
        beside_s = self._beside_calls_s()
        self.visit_s = [
            s * (lead + n) + beside_s for s, lead, n in zip(seconds, self.lead_in, self.repeats, strict=True)
        ]
        caps = [job.rounds for job in self.plan.jobs]
        self.fewest = fewest_rounds([job.races for job in self.plan.jobs], settings.minimum_rounds)
        self.rounds = self._fitting_rounds(caps, self.fewest)
        self._write_rounds([job.rounds or self.rounds for job in self.plan.jobs])

    def _first_of_all(self) -> list[FirstCall]:
        """Return each job's first call, the maximum over ranks."""
        most = iter(
            self.rank.largest(*(x for one in self.first for x in (one.us, one.compile_us, one.graphs)))
        )
        return [FirstCall(us=us, compile_us=next(most), graphs=int(next(most))) for us in most]

    def _fitting_rounds(self, caps: Sequence[int | None], fewest: int) -> int:
        """Return the rounds that fit into the remaining budget, the same on all ranks."""
        settings = self.plan.settings
        [spent_s] = self.rank.largest(self._spent_s())
        return planned_rounds(
            self.visit_s,
            caps,
            budget_s=settings.seconds - spent_s - SHUTDOWN_S,
            fewest=fewest,
            maximum_rounds=settings.maximum_rounds,
        )

    def _spent_s(self) -> float:
        return (self.rank.now_ns() - self.began_ns) / 1e9

    def _write_rounds(self, rounds: Sequence[int]) -> None:
        if self.rank.index == 0:
            each = tuple(min(mine, self.rounds) for mine in rounds)
            Calibration(repeats=self.repeats, rounds=each, first=tuple(self.first)).write(self.rank.folder)

    def _repeats(self, call_s: float) -> int:
        settings = self.plan.settings
        return repeats_for(call_s, min_sample_ms=settings.min_sample_ms, max_repeats=settings.max_repeats)

    def _beside_calls_s(self) -> float:
        """Return the seconds of a visit beside its calls: they grow with the number of ranks in an agreement."""
        took = []
        for _ in range(MEETINGS):
            start = self.rank.now_ns()
            self.rank.meet()
            took.append((self.rank.now_ns() - start) / 1e9)
        return max(VISIT_OVERHEAD_S, *self.rank.largest(min(took)))

    def _call_s(self, job: int) -> float:
        """Return the seconds of one call on the slowest rank: the minimum over streams of several lengths."""
        self.rank.status.work_on(job)
        module, inputs = self.modules[job]
        settings = self.plan.settings
        first = self._stream_s(module, inputs, 1)
        if not self.rank.is_lazy:
            self.first.append(FirstCall(us=first * 1e6))
        if first * 1e3 >= COLD_TIMES * max(LONG * settings.lead_in_ms, settings.min_sample_ms):
            return first  # so long that a sample is one call without a lead-in, however quick a warm one is
        seconds = self._stream_s(module, inputs, 1)
        if seconds * 1e3 >= settings.min_sample_ms or settings.max_repeats == 1:
            return seconds
        return min(seconds, self._stream_s(module, inputs, self._repeats(seconds)))

    def _stream_s(self, module: Emitted, inputs: Inputs, calls: int) -> float:
        self.rank.meet()
        start = self.rank.now_ns()
        self._call(module, inputs, calls)
        [seconds] = self.rank.largest((self.rank.now_ns() - start) / 1e9 / calls)
        return seconds

    def _call(self, module: Emitted, inputs: Inputs, times: int) -> None:
        """Make back-to-back calls, and wait for their values."""
        end_call, call = self.rank.end_call, collect if self.rank.is_lazy else run
        for _ in range(times):
            held = call(module, inputs)
            end_call()
            del held
        self.rank.force()

    def time(self) -> None:
        """Visit every Program in every round, except Programs whose races are over.

        It ends after a whole round once the budget is used up, or when all races are over. If Programs became
        slower since the calibration, it takes up to OVERTIME of the budget for the minimum of rounds.
        """
        self.rank.status.enter(Phase.TIMING)
        self.graphs = self.rank.compiled()[0]
        settings, jobs = self.plan.settings, self.plan.jobs
        races = Races([job.races for job in jobs], enough=settings.minimum_rounds)
        gc.collect()
        gc.disable()
        index = 0
        while index < self.rounds and not all(races.over):
            self.rank.status.start_round(index + 1)
            caps = [0 if out else job.rounds for job, out in zip(jobs, races.over, strict=True)]
            order = visits(index, self.rounds, caps, seed=settings.seed + self.plan.launch)
            spent_s = self._tell([(job, *self._sample(job)) for job in order])
            index += 1
            enough = index >= settings.minimum_rounds
            if index >= self.fewest and spent_s > settings.seconds * (1 if enough else OVERTIME):
                break
            if races.look([mine if job.races else [] for job, mine in zip(jobs, self.samples, strict=True)]):
                self._plan_again(index, races.over)

    def _tell(self, sampled: Sequence[tuple[int, int, int]]) -> float:
        """Share a round's samples, (job, start, end), with all ranks; return the seconds spent, the same on all.

        Rank 0 writes them into the stamps, kept whatever happens to the launch.
        """
        began_ns = self.plan.started_ns  # floats of 64 bits hold the nanoseconds since then for months
        mine = [stamp - began_ns for _, *stamps in sampled for stamp in stamps]
        told = np.array(self.rank.everybody(self._spent_s(), *mine))
        of_ranks = told[:, 1:].reshape(self.rank.ranks, len(sampled), 2)
        for place, (job, _, _) in enumerate(sampled):
            visit = of_ranks[:, place]
            if self.stamps is not None:
                self.stamps[len(self.samples[job]), job] = visit.astype(np.int64) + began_ns
            self.samples[job].append(visit_us(visit, self.repeats[job])[0])
        return float(told[:, 0].max())

    def _plan_again(self, index: int, over: Sequence[bool]) -> None:
        """Give the remaining rounds to Programs whose races are not over."""
        left = [0 if out else job.rounds for job, out in zip(self.plan.jobs, over, strict=True)]
        self.rounds = min(index + self._fitting_rounds(left, TWO), self.plan.settings.maximum_rounds)
        self._write_rounds(
            [
                len(mine) if out else job.rounds or self.rounds
                for job, mine, out in zip(self.plan.jobs, self.samples, over, strict=True)
            ]
        )

    def _beside(self, job: int) -> AbstractContextManager[None]:
        return beside() if self.plan.jobs[job].beside else nullcontext()

    def _sample(self, job: int) -> tuple[int, int]:
        """Return begin and end of a visit's timed calls on this rank (ns of the launch's clock)."""
        self.rank.status.work_on(job)
        module, inputs = self.modules[job]
        self.rank.meet()
        with self._beside(job):
            self._call(module, inputs, self.lead_in[job])
            start = self.rank.now_ns()
            self._call(module, inputs, self.repeats[job])
            end = self.rank.now_ns()
        if (graphs := self.rank.compiled()[0]) != self.graphs:
            raise RuntimeError(
                f"{graphs - self.graphs} graphs were compiled while samples were taken: what is traced differs "
                "from call to call, and its times would be those of the compiler"
            )
        return start, end


def _ports(job: PlannedJob) -> dict[Port, Prepared]:
    return {p.port: (p.elements, getattr(torch, p.dtype), p.within) for p in job.inputs}


def main(folder: Path) -> None:
    plan = LaunchPlan.read(folder)

    def work(rank: Rank) -> None:
        timer = _Timer(rank, plan)
        timer.prepare()
        timer.calibrate()
        timer.time()
        rank.status.work_on(NO_JOB)

    run_rank(folder, work)
