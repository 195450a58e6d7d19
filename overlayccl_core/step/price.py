"""The price of a step: the step driver run over the events of Programs, with a clock in place of tensors.

A rank has a core and, to each tier of the network, a link. Segments and local work take their time on the core.
Calls on one link queue; the one at its head needs its part of the core, and the link for the rest of its time.
While the core computes, too, the call takes `beside` times as long, and the computing gets what the call leaves of
the core. So a step is at least as long as its critical path, each link's queue, and all work of the core.

One rank stands for all: they run the same segments and calls, at the same time. What ranks of a pipeline wait for
each other is not in the price.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from overlayccl_core.costmodel.beside import Beside
from overlayccl_core.costmodel.features import step_features
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.lowering import Action, Step, lets_work
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.payload import crosses_nodes
from overlayccl_core.program.program import Program, Read
from overlayccl_core.step.driver import MEANWHILE, SiteModule, run_step
from overlayccl_core.step.segment import Outline, StepSegment, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step of a Program takes.

    Attributes:
        us: By itself. Of a local step all of it is the core's.
        cpu_us: The core's part of a call.
        beside: How many times as long a call takes while the core computes.
        link: Of a call; None: a local step.
    """

    us: float
    cpu_us: float = 0.0
    beside: float = 1.0
    link: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.cpu_us <= self.us or self.beside < 1:
            raise ValueError(
                f"a call has 0 <= cpu_us <= us and beside >= 1 (got {self.cpu_us}, {self.us} and {self.beside})"
            )


Costs = Sequence[tuple[Step, StepCost]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSegment:
    """A segment and its time on the rank's core, in microseconds."""

    outline: Outline
    us: float


def costs_of(program: Program, theta: Theta, beside: Beside) -> Costs | None:
    """Return the costs of a Program's steps; None if the probes do not tell one of them."""
    per_node, costs = program.problem.case.ranks_per_node, []
    for step, counted in step_features(program):
        us = price_features(counted, theta).us
        if us is None:
            return None
        if step.action is not Action.START:
            costs.append((step, StepCost(us=us)))
            continue
        shares = beside.of(step.nodes, per_node)
        if shares is None:
            return None
        link = "network" if crosses_nodes(step.nodes[0], per_node) else "node"
        costs.append((step, StepCost(us=us, cpu_us=shares.cpu * us, beside=shares.slower, link=link)))
    return costs


def step_us(modules: Mapping[str, tuple[Program, Costs]], segments: Iterable[TimedSegment]) -> float:
    """Return the time of a step.

    Args:
        modules: Site -> its Program and the costs of its steps, in the driver's order of preference.

    Raises:
        StuckStep: The Programs' orders wait for each other.
    """
    rank = Rank()
    run_step(
        [_module(rank, site, program, costs) for site, (program, costs) in modules.items()],
        [_segment(rank, one) for one in segments],
    )
    return rank.now_us


class _NoTensor:
    """A value of which only its being there counts."""

    def reshape(self, *_shape: Any) -> "_NoTensor":
        return self

    def detach(self) -> "_NoTensor":
        return self


_NO_TENSOR = _NoTensor()


@dataclass(frozen=True, slots=True)
class _Write:
    port: Port
    value: _NoTensor = _NO_TENSOR


def _segment(rank: "Rank", timed: TimedSegment) -> StepSegment:
    one = timed.outline

    def work(_values: Mapping[Value, Any]) -> dict[Value, Any]:
        rank.compute(timed.us)
        return dict.fromkeys(one.gives, _NO_TENSOR)

    return StepSegment(
        name=one.name, needs=one.needs, gives=one.gives, after=one.after, left_over=one.left_over, work=work
    )


def _module(rank: "Rank", site: str, program: Program, costs: Costs) -> SiteModule:
    lets = any(lets_work(program.problem, step) for step, _ in costs)
    emitted = SimpleNamespace(**{MEANWHILE: lambda: None} if lets else {})

    def generator() -> Generator[Any, Any, None]:
        flying: dict[Any, Flight] = {}
        for step, cost in costs:
            if step.action is Action.START:
                flying[step.nodes] = rank.issue(cost)
                continue
            if step.action is Action.WAIT:
                if lets_work(program.problem, step):
                    emitted.meanwhile()
                rank.wait(flying.pop(step.nodes))
            rank.compute(cost.us)
            if step.port is not None:
                yield Read(step.port) if step.action is Action.READ else _Write(step.port)

    return SiteModule(
        site=site,
        generator=generator(),
        read=Read,
        shapes={port: spec.shape for port, spec in program.problem.outputs.items()},
        module=emitted,
    )


@dataclass(slots=True)
class Flight:
    """A call on its way: the time left of it, by itself; when it was over."""

    cost: StepCost
    left_us: float
    end_us: float = 0.0


class Rank:
    """The clock of a rank, its core, and the queues of its links."""

    def __init__(self) -> None:
        self.now_us = 0.0
        self.queues: dict[str | None, list[Flight]] = {}

    def issue(self, cost: StepCost) -> Flight:
        """Put a call into the queue of its link."""
        flight = Flight(cost, cost.us, self.now_us)
        if cost.us:
            self.queues.setdefault(cost.link, []).append(flight)
        return flight

    def wait(self, flight: Flight) -> None:
        """Let time pass until a call is over."""
        while flight.left_us > 0:
            self._pass(None)

    def compute(self, us: float) -> None:
        """Let time pass until the core has computed for so long."""
        while us > 0:
            us -= self._pass(us)

    def _pass(self, work_us: float | None) -> float:
        """Let time pass until a call at the head of a queue, or the core's work, is over; return the work done."""
        heads = [queue[0] for queue in self.queues.values() if queue]
        slower = [1 / one.cost.beside if work_us is not None else 1.0 for one in heads]
        taken = sum(rate * one.cost.cpu_us / one.cost.us for rate, one in zip(slower, heads, strict=True))
        rates = [rate / max(taken, 1.0) for rate in slower]  # calls of several links share the core
        computing = 1 - min(taken, 1.0)
        ends = [one.left_us / rate for one, rate in zip(heads, rates, strict=True)]
        if work_us is not None and computing > 0:
            ends.append(work_us / computing)
        passed = min(ends)
        self.now_us += passed
        for one, rate, end in zip(heads, rates, ends, strict=False):
            one.left_us = one.left_us - passed * rate if end > passed else 0.0
        for queue in self.queues.values():
            if queue and queue[0].left_us == 0:
                queue.pop(0).end_us = self.now_us
        if work_us is None:
            return 0.0
        return work_us if len(ends) > len(heads) and ends[-1] == passed else passed * computing
