"""The worker of a launch that times segments: steps without calls, with a clock around each segment."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from overlayccl_core.backends.rank import Rank, run_rank
from overlayccl_core.launching.status import NO_JOB, Phase
from overlayccl_core.step.driver import run_step
from overlayccl_core.step.segment import Outline, StepSegment, Value
from overlayccl_core.training.arm import ArmState, Modules
from overlayccl_core.training.inspection import make_quiet
from overlayccl_core.training.pieces import TrainingStep
from overlayccl_core.training.plan import TrainingPlan
from overlayccl_core.training.segment_times import OTHERS, SegmentSamples, write_samples

COLD = 2  # first steps, not counted
Timed = dict[Outline, list[int]]


def outline_of(segment: StepSegment) -> Outline:
    """Return a segment without its work."""
    return Outline(**{field.name: getattr(segment, field.name) for field in fields(Outline)})


def timed(segments: Iterator[StepSegment], now_ns: Callable[[], int], taken: Timed) -> Iterator[StepSegment]:
    """Yield the segments with a clock around their work; it adds to `taken`."""
    for segment in segments:
        samples = taken.setdefault(outline_of(segment), [])

        def work(
            values: Mapping[Value, Any], one: StepSegment = segment, samples: list[int] = samples
        ) -> Mapping[Value, Any]:
            start = now_ns()
            given = one.work(values)
            samples.append(now_ns() - start)
            return given

        yield replace(segment, work=work)


class _Timer:
    """An arm whose steps call no library, with a clock around each segment."""

    def __init__(self, rank: Rank, plan: TrainingPlan, index: int) -> None:
        arm = plan.arms[index]
        self.rank = rank
        self.microbatches = arm.microbatches
        self.steps = plan.settings.maximum_steps
        self.modules = Modules.load(arm, rank, f"arm_{index}")
        for module in self.modules.modules.values():
            make_quiet(module)
        self.state = ArmState(arm, plan.model, self.modules, rank, seed=0)
        self.pieces = self.state.pieces

    def now_ns(self) -> int:
        """Return the time of this thread on a CPU, where ranks may share cores; else once the device is done."""
        if self.rank.device == "cpu":
            return time.thread_time_ns()
        self.rank.force()
        return time.monotonic_ns()

    def step(self, number: int, *, early: bool, leaves_work: bool) -> TrainingStep:
        """Return a step on its data."""
        model, ranks = self.pieces.model, self.rank.ranks
        drawn = self.pieces.feed(model, seed=0, step=number, rank=self.rank.index, ranks=ranks)
        self.pieces.leaves_work = leaves_work
        batches = self.pieces.split(self.pieces.on(self.rank.device, drawn), self.microbatches)
        return self.pieces.step(batches, early=early)

    def all_kinds(self) -> Iterator[SegmentSamples]:
        """Yield the samples of each kind of step; kinds with the same segments share theirs."""
        known: dict[frozenset[Outline], Timed] = {}
        for early, leaves_work in product((False, True), repeat=2):
            step = self.step(0, early=early, leaves_work=leaves_work)
            segments = frozenset(map(outline_of, step.segments()))
            if segments not in known:
                known[segments] = self.run(early=early, leaves_work=leaves_work)
            for outline, ns in known[segments].items():
                yield SegmentSamples(
                    microbatches=self.microbatches,
                    early=early,
                    leaves_work=leaves_work,
                    outline=outline,
                    ns=tuple(ns),
                )

    def run(self, *, early: bool, leaves_work: bool) -> Timed:
        """Run steps; return the times of the segments, and of all else."""
        taken, others = Timed(), []
        for number in range(COLD + self.steps):
            self.rank.status.start_round(number + 1)
            step = self.step(number, early=early, leaves_work=leaves_work)
            start = self.now_ns()
            self.state.optimizer.zero_grad(set_to_none=True)
            run_step(self.modules.fresh(), timed(step.segments(), self.now_ns, taken))
            self.state.optimizer.step()
            whole = self.now_ns() - start
            others.append(whole - sum(ns[-1] for ns in taken.values()))
        return {outline: ns[COLD:] for outline, ns in (*taken.items(), (OTHERS, others))}


def main(folder: Path) -> None:
    """Time the segments of the plan in `folder`."""
    plan = TrainingPlan.read(folder)

    def work(rank: Rank) -> None:
        rank.status.enter(Phase.TIMING)
        rank.make_usual_groups()
        samples: list[SegmentSamples] = []
        for index in range(len(plan.arms)):
            rank.status.work_on(index)
            samples += _Timer(rank, plan, index).all_kinds()
        write_samples(folder, rank.index, samples)
        rank.status.work_on(NO_JOB)

    run_rank(folder, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
