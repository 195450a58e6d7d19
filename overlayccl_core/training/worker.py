"""The worker of a training launch: runs the arms of a plan in turns, step by step, and records their steps.

In a round the arms take one step each, in a random order, on the same data; all start from the same parameters.
Compare step k of an arm only with step k of another arm.
"""

import gc
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # an inspection needs it: imported here, once for all ranks of a host

from overlayccl_core.backends.rank import Rank, compile_together, run_rank
from overlayccl_core.launching.status import NO_JOB, Phase
from overlayccl_core.measuring.purposes import EARLY_STEPS, Purpose
from overlayccl_core.training.arm import ArmState, Modules, Unsharded, mean_loss, unsharded_gradients
from overlayccl_core.training.inspection import ModelWork, count_calls, inspect, make_quiet, make_waiting
from overlayccl_core.training.pieces import Batch, pieces_of
from overlayccl_core.training.plan import (
    SLOW,
    Arm,
    Inspection,
    RankRecord,
    StepSettings,
    TrainingPlan,
    write_records,
)
from overlayccl_core.training.segments import Tensor

COLD = 1  # first steps of an arm, recorded as cold; the second is as fast as later ones (benchmarks/cold.py)
# The same on lazy devices: the first step creates the optimizer's state, an input of later steps.
COMPILING = 2
FEW_STEPS = 2  # of a step's parts, unless they take turns with the timed ones; they differ little
CHANGED = {Purpose.QUIET: make_quiet, Purpose.WAITED: make_waiting}  # purposes with modules of their own


@dataclass(slots=True)
class _Course:
    """The state of an arm and the measurements of its steps."""

    index: int
    purpose: Purpose
    seed: int
    state: ArmState
    cold: int = 0  # first steps, not counted as timed
    starts_ns: list[int] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def step_s(self) -> float:
        """The median step after the cold ones, in seconds."""
        both = zip(self.starts_ns[self.cold :], self.ends_ns[self.cold :], strict=True)
        return float(np.median([end - start for start, end in both])) / 1e9


class _Trainer:
    """One rank's part of a training launch."""

    def __init__(self, rank: Rank, plan: TrainingPlan) -> None:
        self.rank = rank
        self.plan = plan
        self.pieces = pieces_of(plan.model)
        self.records: list[RankRecord] = []
        self.inspections: dict[int, Inspection] = {}  # of arms without a record so far
        self.modules: list[Modules] = []
        self.changed: dict[tuple[Purpose, int], Modules] = {}
        self.timed: dict[tuple[int, int], _Course] = {}  # by arm and seed
        self.replicas = plan.model.replicas(rank.ranks)
        self.replica = sorted(set(self.replicas)).index(
            self.replicas[rank.index]
        )  # among all, in their order
        self.cold = COMPILING if rank.is_lazy else COLD

    # ------------------------------------------------------------------------------------------- what there is
    def prepare(self) -> None:
        """Load and connect the modules of every arm."""
        self.rank.status.enter(Phase.PREPARING)
        self.rank.make_usual_groups()
        modules = sorted({site.module for arm in self.plan.arms for site in arm.sites})
        compile_together(self.rank, [self.rank.folder / module for module in modules])
        for index, arm in enumerate(self.plan.arms):
            self.rank.status.work_on(index)
            self.modules.append(Modules.load(arm, self.rank, f"arm_{index}"))
            for purpose, change in CHANGED.items():
                if purpose in arm.purposes:
                    changed = Modules.load(arm, self.rank, f"{purpose}_{index}")
                    for module in changed.modules.values():
                        change(module)
                    self.changed[purpose, index] = changed

    def data(self, seed: int, step: int, index: int | None = None) -> Batch:
        """Return a step's batch on the device, the same for any number of microbatches; index: of another rank."""
        index = self.rank.index if index is None else index
        drawn = self.pieces.feed(self.plan.model, seed=seed, step=step, rank=index, ranks=self.rank.ranks)
        return self.pieces.on(self.rank.device, drawn)

    def everywhere(self, seed: int, step: int) -> list[Batch]:
        """Return a step's batches of all replicas, on the device."""
        return [self.data(seed, step, self.replicas.index(replica)) for replica in sorted(set(self.replicas))]

    def state(self, index: int, seed: int, modules: Modules | None = None, *, idle: bool = False) -> ArmState:
        """Return an arm with its initial parameters."""
        modules = modules or self.modules[index]
        return ArmState(self.plan.arms[index], self.plan.model, modules, self.rank, seed=seed, idle=idle)

    # -------------------------------------------------------------------------------------------- inspection
    def inspect(self) -> None:
        """Run an untimed step of every arm: count its operations, compare gradients with the unsharded model.

        The result goes into an arm's first record.
        """
        if not self.plan.inspects:
            return
        self.rank.status.enter(Phase.CHECKING)
        seed = self.plan.launch
        everywhere = Unsharded(self.plan.model, self.rank, seed=seed).settled(self.everywhere(seed, 0))
        mine = everywhere[self.replica]
        expected = unsharded_gradients(self.plan.model, everywhere, seed=seed, rank=self.rank)
        for index, arm in enumerate(self.plan.arms):
            self.rank.status.work_on(index)
            self.inspections[index] = self._inspect(index, arm, mine, expected)

    def _inspect(self, index: int, arm: Arm, data: Batch, expected: Mapping[str, Tensor]) -> Inspection:
        seed = self.plan.launch
        modules = Modules.load(arm, self.rank, f"inspected_{index}")
        calls = {site: count_calls(module) for site, module in modules.modules.items()}
        state = self.state(index, seed, modules)
        model = ModelWork(exchanged=state.pieces.exchanged_kernels)
        state.around = model.within
        if state.framework is not None:
            # It learns shapes in its first step, and DDP rebuilds buckets in its second. Weighing takes one anyway.
            for _ in range(1 if arm.weighed else 2):
                state.gradients(data)

        def step() -> None:
            for since in calls.values():
                since()
            state.gradients(data)
            self.rank.end_call()

        self.rank.meet()
        counts = inspect(step, self.rank.library_calls, model, weighed=arm.weighed)
        self.rank.force()
        errors = []
        for name, parameter in state.pieces.parameters.items():
            want = self.pieces.shard(self.plan.model, name, expected[name], self.rank.index, self.rank.ranks)
            got = (
                torch.zeros_like(want) if parameter.grad is None else self.rank.own_part(parameter.grad).cpu()
            )
            errors.append(relative_error(got, want))
        started = tuple((site, count()) for site, count in calls.items())
        return Inspection(
            matmuls=counts.matmuls,
            matmul_digest=counts.matmul_digest,
            collectives=counts.collectives or sum(count for _, count in started),
            calls=started,
            programs=tuple(
                (one.site, modules.modules[one.site].DIGEST[one.direction]) for one in modules.sites
            ),
            library_version=self.rank.library_version,
            peak_memory_bytes=counts.peak_memory_bytes,
            gradient_rel_error=max(errors),
        )

    # ------------------------------------------------------------------------------------------------- steps
    def time(self) -> None:
        """Time steps of all arms in turns; in turn with them or after them those of their parts."""
        self.rank.status.enter(Phase.TIMING)
        gc.collect()
        gc.disable()
        settings = self.plan.settings
        timed, parts = self._courses(Purpose.TIMED), self._courses(*CHANGED, Purpose.IDLE)
        if settings.in_turns:
            timed, parts = [*timed, *parts], []
        elif self.plan.launch:
            parts = []
        self._run(timed, settings.minimum_steps, settings.seconds)
        self._run(parts, FEW_STEPS)
        gc.enable()
        for course in (*timed, *parts):
            self._keep(course, self.cold)
            if course.purpose is Purpose.TIMED:
                self.timed[course.index, course.seed] = course

    def _courses(self, *purposes: Purpose) -> list[_Course]:
        seed = self.plan.launch
        return [
            _Course(index, purpose, seed, self._state_for(purpose, index, seed), self.cold)
            for index, arm in enumerate(self.plan.arms)
            for purpose in purposes
            if purpose in arm.purposes
        ]

    def _state_for(self, purpose: Purpose, index: int, seed: int) -> ArmState:
        modules = self.changed.get((purpose, index))
        return self.state(index, seed, modules, idle=purpose is Purpose.IDLE)

    def _run(self, courses: Sequence[_Course], fewest: int, seconds: float = 0.0) -> None:
        """Run the cold and the fewest timed steps of all courses, then more of the fast ones, as time allows.

        On lazy devices the cold steps, with their compiling, do not count against `seconds`.
        """
        if not courses:
            return
        random = np.random.default_rng((self.plan.launch, len(courses)))
        everyone = range(len(courses))
        started = time.monotonic()
        for number in range(self.cold):
            self._round(courses, random.permutation(everyone).tolist(), number)
        warm = time.monotonic()
        started = warm if self.rank.is_lazy else started
        for number in range(self.cold, self.cold + fewest):
            self._round(courses, random.permutation(everyone).tolist(), number)
        now = time.monotonic()
        spent, in_turns, *each = self.rank.largest(
            now - started, now - warm, *(one.step_s for one in courses)
        )
        meeting = max(in_turns / fewest - sum(each), 0.0) / len(courses)  # the ranks' barrier before a step
        more = more_steps(
            [one + meeting for one in each],
            seconds - spent,
            self.plan.settings,
            timed=[course.purpose is Purpose.TIMED for course in courses],
        )
        for number in range(max(more)):
            taking_part = [which for which, mine in enumerate(more) if number < mine]
            self._round(courses, random.permutation(taking_part).tolist(), self.cold + fewest + number)

    def _round(
        self, courses: Sequence[_Course], order: Sequence[int], number: int, shared: Batch | None = None
    ) -> None:
        """Run a step of some courses in an order; shared: what all of them read (None: each its own data)."""
        self.rank.status.start_round(number + 1)
        for which in order:
            course = courses[which]
            self.rank.status.work_on(course.index)
            data = self.data(course.seed, number) if shared is None else shared
            self.rank.force()  # the data is on the device
            self.rank.meet()
            start = self.rank.now_ns()
            losses = course.state.step(data)
            self.rank.force()
            end = self.rank.now_ns()
            course.starts_ns.append(start)
            course.ends_ns.append(end)
            if losses is not None and course.purpose is not Purpose.IDLE:  # which computes none but the first
                course.losses.append(mean_loss(losses))

    def compare_losses(self) -> None:
        """Train the arms of purpose LOSS for `loss_steps` steps from every seed.

        In the first steps a model that decides has the decisions of the unsharded one: they are compared closely.
        Of any other model, timed steps from that seed are the first ones here.
        """
        self.rank.status.enter(Phase.CHECKING)
        chosen = [i for i, arm in enumerate(self.plan.arms) if Purpose.LOSS in arm.purposes]
        for seed in self.plan.settings.loss_seeds:
            courses = [self._loss_course(i, seed) for i in chosen]
            settled = self._early_decisions(seed) if chosen and self.plan.model.decides else []
            for number in range(self.plan.settings.loss_steps):
                shared = settled.pop(0) if settled else None
                behind = [which for which, course in enumerate(courses) if len(course.ends_ns) <= number]
                self._round(courses, behind, number, shared)
            for course in courses:
                self._keep(course, 0, validation_loss=self._validate(course.state))

    def _loss_course(self, index: int, seed: int) -> _Course:
        """Return a course for losses: that of the timed steps where it has the same data and not too many steps."""
        timed = self.timed.pop((index, seed), None)
        if timed is None or self.plan.model.decides or len(timed.ends_ns) > self.plan.settings.loss_steps:
            return _Course(index, Purpose.LOSS, seed, self.state(index, seed))
        return replace(timed, purpose=Purpose.LOSS)

    def _early_decisions(self, seed: int) -> list[Batch]:
        """Return this rank's data of the first steps, with the decisions of the unsharded model."""
        whole = Unsharded(self.plan.model, self.rank, seed=seed)
        steps = range(min(EARLY_STEPS, self.plan.settings.loss_steps))
        return [whole.step(self.everywhere(seed, step))[self.replica] for step in steps]

    def _validate(self, state: ArmState) -> float | None:
        """The mean held-out loss; None without held-out data."""
        losses = []
        for batch in state.pieces.held_out():
            with torch.no_grad():
                losses.append(state.pieces.whole(state.pieces.on(self.rank.device, batch)))
            self.rank.end_call()  # one graph for all batches
        return mean_loss(torch.stack(losses)) if losses else None

    def _keep(self, course: _Course, cold: int, validation_loss: float | None = None) -> None:
        self.records.append(
            RankRecord(
                arm=course.index,
                purpose=course.purpose,
                seed=course.seed,
                cold=cold,
                starts_ns=tuple(course.starts_ns),
                ends_ns=tuple(course.ends_ns),
                losses=tuple(course.losses),
                validation_loss=validation_loss,
                inspection=self.inspections.pop(course.index, None),
            )
        )


def more_steps(
    each: Sequence[float], seconds: float, settings: StepSettings, *, timed: Sequence[bool] | None = None
) -> list[int]:
    """Return the number of steps of every course after the first minimum_steps: none for slow ones.

    Args:
        each: Seconds of a step of every course, with the barrier before it.
        seconds: The time left for all courses.
        timed: Whether a course's steps are whole ones: the fastest of these is the measure of slow. None: all are.
    """
    whole = [one for one, is_timed in zip(each, timed or (), strict=False) if is_timed] or each
    slow = [one >= SLOW * min(whole) for one in each]
    of_others = sum(one for one, is_slow in zip(each, slow, strict=True) if not is_slow)
    fitting = min(max(int(seconds / of_others), 0), settings.maximum_steps - settings.minimum_steps)
    return [0 if is_slow else fitting for is_slow in slow]


def relative_error(got: Tensor, want: Tensor) -> float:
    """Return |got - want| / |want|, infinity in place of NaN: a maximum over ranks would hide NaN."""
    error = float((got - want).norm() / want.norm())
    return math.inf if math.isnan(error) else error


def main(folder: Path) -> None:
    """Train the arms of the plan in `folder`."""
    plan = TrainingPlan.read(folder)

    def work(rank: Rank) -> None:
        trainer = _Trainer(rank, plan)
        trainer.prepare()
        trainer.inspect()
        trainer.time()
        trainer.compare_losses()
        write_records(folder, rank.index, trainer.records)
        rank.status.work_on(NO_JOB)

    run_rank(folder, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
