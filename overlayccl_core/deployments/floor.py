"""The physical floor: a lower bound for the time of any correct execution of a Program, from the probes here.

A module skipping work is fast. Whatever else a rank does, two bounds hold:

    chain   A call starts after the calls awaited before it have ended. It takes the latency of its kind and the
            time of its bytes at the best bandwidth, even if one call does several collectives.
    bytes   All bytes sent by the busiest rank go at the best bandwidth.

The chain follows the steps of the printed module. In it, local work is free, and calls in flight together cost as
much as the dearest. Where ranks compile, only the end of a graph is a wait: in a graph the latency of one call may
hide that of others, even of the calls it reads, so a graph costs as much as its dearest call. The floor is lowered
until no probe is below it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from overlayccl_core.program.calls import Call
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import crosses_nodes, group_size, wire_bytes
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A probe, its time, and its least time."""

    program: Program
    us: float
    least_us: float


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Calls:
    """Calls of one latency: of groups of so many ranks, within a node or across nodes."""

    kind: Kind
    ranks: int
    crosses_nodes: bool

    @property
    def alike(self) -> tuple[Kind, bool]:
        """What they have in common with calls of other numbers of ranks."""
        return self.kind, self.crosses_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Best results of a deployment's probes. bytes_per_us: the highest rate of a busiest rank, beyond latencies."""

    latency_us: Mapping[Calls, float]
    bytes_per_us: float

    def __post_init__(self) -> None:
        if not self.bytes_per_us > 0:
            raise ValueError("a floor needs at least one probe with a collective: run the probes first")

    def us(self, program: Program) -> float:
        """Return the lower bound for any correct execution of the Program; 0 without collectives."""
        per_node = program.problem.case.ranks_per_node

        def call_us(call: Call) -> float:
            alike = _calls(call[0], per_node)
            if alike is None:
                return 0.0
            return self.latency_us.get(alike, 0.0) + sum(map(wire_bytes, call)) / self.bytes_per_us

        return max(_chain(program, call_us), _busiest_bytes(program) / self.bytes_per_us)


def floor_from_probes(probes: Collection[Probed]) -> Floor:
    """Return the floor of a deployment. ValueError if no probe has a collective.

    Probes of calls all alike, each awaited before the next, give their latency: the least of their time over the
    number of calls. Calls of more ranks have no lower latency.
    """
    least: dict[Calls, float] = {}
    for probe in probes:
        per_node = probe.program.problem.case.ranks_per_node
        alike = {_calls(call[0], per_node) for call in probe.program.calls}
        only = alike.pop() if len(alike) == 1 else None
        calls = len(probe.program.calls)
        if only is not None and _chain(probe.program, lambda _: 1.0) == calls:
            least[only] = min(least.get(only, inf), probe.least_us / calls)
    latency = {
        calls: min(
            us for other, us in least.items() if other.alike == calls.alike and other.ranks >= calls.ranks
        )
        for calls in least
    }
    latencies = Floor(latency_us=latency, bytes_per_us=inf)
    floor = replace(latencies, bytes_per_us=_best_rate(probes, latencies))
    lowered = min([1.0, *(p.us / us for p in probes if (us := floor.us(p.program)))])
    return Floor(
        latency_us={calls: us * lowered for calls, us in latency.items()},
        bytes_per_us=floor.bytes_per_us / lowered,
    )


def _best_rate(probes: Iterable[Probed], latencies: Floor) -> float:
    """Return the highest rate of a probe beyond its latencies, in bytes a us: a bound for larger messages.

    Latencies count for at most half of a probe's time: of short probes they are nearly all, and the rest is noise.
    """
    return max(
        (
            _busiest_bytes(probe.program)
            / max(probe.least_us - latencies.us(probe.program), probe.least_us / 2)
            for probe in probes
        ),
        default=0.0,
    )


def _chain(program: Program, call_us: Callable[[Call], float]) -> float:
    """Return the end of the last call, with all else free and no call slowed by another."""
    now, last, ends = 0.0, 0.0, dict[Call, float]()
    for step in lower(program):
        if step.action is Action.BOUNDARY:
            now = last
        elif step.action is Action.START:
            ends[step.nodes] = now + call_us(step.nodes)
            last = max(last, ends[step.nodes])
        elif step.action is Action.WAIT:
            now = max(now, ends[step.nodes])
    return last


def _busiest_bytes(program: Program) -> float:
    sent = np.zeros(program.problem.ranks)
    for call in program.collectives:
        sent[_senders(call)] += wire_bytes(call)
    return float(sent.max())


def _senders(call: Node) -> list[int]:
    """Return the ranks with a message for another; in a collective with groups, all."""
    if call.kind is not Kind.COLLECTIVE_PERMUTE:
        return list(range(call.groups.ranks))
    return [source for rank, source in enumerate(call.sources) if source not in (-1, rank)]


def _calls(call: Node, ranks_per_node: int) -> Calls | None:
    """Return the kind of a call; None if some rank sends nothing.

    A rank without a message runs ahead: values handed on from rank to rank fill a stream of Programs like a
    pipeline, and each takes less than its chain.
    """
    if len(_senders(call)) < group_size(call):
        return None
    permute = call.kind is Kind.COLLECTIVE_PERMUTE  # partners may be any two, however many ranks there are
    return Calls(
        kind=call.kind,
        ranks=2 if permute else call.groups.size,
        crosses_nodes=crosses_nodes(call, ranks_per_node),
    )
