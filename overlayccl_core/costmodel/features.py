"""Features of a Program, counted from its steps as they run: the columns of the cost model, as data.

Collectives are counted by kind and reach (tier and group size), apart for those started with nothing outstanding
(`alone`) and with something (`together`), each with a count and bytes. A call of several values is one of them with
the bytes of all, and its values and bytes also count as `coalesced`. Then there are the Program's waits, bytes
reduced in 16 bits, local operations with their bytes (those beyond caches once more), collectives `after_work`,
with the bytes of it, graphs, and bytes through a network card. Some columns are optional (`Increment`): the fit
takes them only if they help.

Local work costs more between collectives than by itself: ranks come to the next call one after another, all the
more with shared cores, and every one waits for the last. Calls are timed back to back, as steps of training follow
each other: a Program's work after its last collective comes before its first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from overlayccl_core.configuration.sizes import KIB, MIB, bytes_text
from overlayccl_core.program import attention
from overlayccl_core.program.calls import Call, call_name
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import REDUCING, Kind
from overlayccl_core.program.lowering import Action, Step
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.payload import crosses_nodes, groups_cross_nodes, node_bytes, payload_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.program.run_order import as_run
from overlayccl_core.program.view_plan import Layout


class Term(StrEnum):
    """Groups of columns, for display and ablation."""

    LAUNCH = "launch"
    COLLECTIVES = "collectives"
    AMORTIZATION = "amortization"
    COPIES = "copies"
    NETWORK = "network"


class Increment(StrEnum):
    """Sets of optional columns, in the order in which the fit tries them.

    LARGE: bytes of a call beyond LARGE_BYTES, by kind and reach. FURTHER: permutes started while another is in
    flight; beside other kinds they cost less. NETWORK_CARD: bytes through the card that the ranks of a node share.
    BEYOND: those of a call beyond each size of BEYOND_BYTES: buffers, a token bucket and the call's own work hide
    the first ones. Permutes in flight together have little work of their own, and share these.
    HALF_DUPLEX: those of an all_to_all across nodes after local work: ranks enter one after another, and the word
    that one is ready to receive waits behind its own payload. SECOND, TO_EIGHTH: an extra for the earlier ones of
    collectives in flight.
    """

    NONE = ""
    LARGE = "large"
    FURTHER = "further"
    NETWORK_CARD = "network_card"
    BEYOND = "network_card_beyond"
    HALF_DUPLEX = "half_duplex"
    SECOND = "second"
    TO_EIGHTH = "second_to_eighth"


ATTEND = "attend"
NARROW_BYTES = 2  # a library may add up these types in software, much slower than float32
EIGHTH = 7  # outstanding when the eighth of a run starts
# Bytes of one local operation beyond them may cost more. Probes of CPU ranks bend between 2 and 4 MiB;
# without a bend (an accelerator's memory) the fit gives the column nothing.
CACHED_BYTES = 2 * MIB
LARGE_BYTES = MIB  # of one call; the same, of probes of CPU ranks
BEYOND_BYTES = (16 * KIB, 64 * KIB, 256 * KIB)  # of a call, through a card; a fit joins them to one curve


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Feature:
    """One feature: its name, its term, and the unit of its coefficient."""

    name: str
    term: Term
    unit: str
    increment: Increment = Increment.NONE


Features = Mapping[Feature, float]


def features(program: Program) -> Features:
    """Return the nonzero features of a Program, from its steps as they run and the ranks on a node."""
    whole = _Counts()
    for _ in _counted(program, lambda: whole):
        pass
    return whole.sums


def step_features(program: Program) -> list[tuple[Step, Features]]:
    """Return each step as it runs with its part of the features: together they are `features`.

    Work before a call, and the launch of a graph, count with the step behind them.
    """
    return [(step, counts.sums) for step, counts in list(_counted(program, _Counts))]


def _counted(program: Program, new: Callable[[], "_Counts"]) -> Iterator[tuple[Step, "_Counts"]]:
    """Yield each step with `new` counts; those of the calls are complete at the end."""
    per_node = program.problem.case.ranks_per_node
    started = False  # a collective, since the last wait
    begun = ["graph.first"]  # by the next step
    calls: list[tuple[Call, _Counts]] = []
    permutes: set[Call] = set()  # in flight
    work_before = [0]  # bytes of local work before each collective, and after the last
    through = 0.0  # bytes through the card of the permutes in flight
    for step in as_run(program):
        counts = new()
        yield step, counts
        if step.action is Action.BOUNDARY:
            begun = list(dict.fromkeys([*begun, "graph.next"]))
            continue
        for graph in begun:
            counts.add(graph, Term.LAUNCH)
        begun = []
        if step.action is Action.START:
            started = True
            work_before.append(0)
            calls.append((step.nodes, counts))
            through = through if step.in_flight else 0.0
            through += _collective(counts, step, per_node, through)
            _permute(counts, step, permutes)
        elif step.action is Action.WAIT:
            if started:
                counts.add("wait", Term.COLLECTIVES)
            started = False
            permutes.discard(step.nodes)
        elif step.node is not None:
            work_before[-1] += _local(counts, step, step.node)
    _after_work(calls, work_before, per_node)


def _after_work(calls: Sequence[tuple[Call, "_Counts"]], work_before: Sequence[int], per_node: int) -> None:
    """Count the calls after local work; that after the last comes before the first."""
    works = list(work_before[:-1])
    if works:
        works[0] += work_before[-1]
    for (call, counts), work in zip(calls, works, strict=True):
        if not work:
            continue
        counts.add("after_work", Term.COLLECTIVES)
        counts.add_bytes("after_work", Term.COLLECTIVES, work)
        if call[0].kind is Kind.ALL_TO_ALL and crosses_nodes(call[0], per_node):
            name = f"{call[0].kind.value}.{Increment.HALF_DUPLEX.value}"
            through = node_bytes(call[0], per_node)
            counts.add_bytes(name, Term.NETWORK, through, Increment.HALF_DUPLEX)


def _permute(counts: "_Counts", step: Step, permutes: set[Call]) -> None:
    """Count a permute beside others; permutes: those in flight, to which it comes."""
    if not step.in_flight:
        permutes.clear()  # a compiled graph has no waits
    if step.nodes[0].kind is Kind.COLLECTIVE_PERMUTE:
        if permutes:
            name = f"{Kind.COLLECTIVE_PERMUTE.value}.{Increment.FURTHER.value}"
            counts.add(name, Term.AMORTIZATION, Increment.FURTHER)
        permutes.add(step.nodes)


class _Counts:
    """Sums of columns."""

    def __init__(self) -> None:
        self.sums: dict[Feature, float] = {}

    def add(self, name: str, term: Term, increment: Increment = Increment.NONE, times: int = 1) -> None:
        self._add(_column(f"{name}.count", term, "us", increment), times)

    def add_bytes(self, name: str, term: Term, size: float, increment: Increment = Increment.NONE) -> None:
        self._add(_column(f"{name}.bytes", term, "us/B", increment), size)

    def add_runs(self, name: str, term: Term, runs: float) -> None:
        self._add(_column(f"{name}.runs", term, "us/run"), runs)

    def add_multiplied(self, name: str, term: Term, products: float) -> None:
        self._add(_column(f"{name}.multiplied", term, "us/multiplication"), products)

    def _add(self, column: Feature, value: float) -> None:
        self.sums[column] = self.sums.get(column, 0.0) + value


@lru_cache(maxsize=4096)
def _column(name: str, term: Term, unit: str, increment: Increment = Increment.NONE) -> Feature:
    return Feature(name=name, term=term, unit=unit, increment=increment)


def _collective(counts: _Counts, step: Step, ranks_per_node: int, permuted: float) -> float:
    """Count a call; permuted: bytes through the card of permutes in flight. Return its own, of a permute."""
    node, size = step.nodes[0], sum(map(payload_bytes, step.nodes))
    name = f"{node.kind.value}.{reach_of(node, ranks_per_node)}"
    if step.in_flight == 0:
        state, term = "alone", Term.COLLECTIVES
    else:
        state, term = "together", Term.AMORTIZATION
        if step.in_flight == 1:
            counts.add(f"{node.kind.value}.{Increment.SECOND.value}", term, Increment.SECOND)
        if step.in_flight <= EIGHTH:
            counts.add(f"{node.kind.value}.{Increment.TO_EIGHTH.value}", term, Increment.TO_EIGHTH)
    counts.add(f"{name}.{state}", term)
    counts.add_bytes(f"{name}.{state}", term, size)
    if size > LARGE_BYTES:
        counts.add_bytes(f"{name}.{Increment.LARGE.value}", term, size - LARGE_BYTES, Increment.LARGE)
    if len(step.nodes) > 1:
        counts.add(call_name(step.nodes), Term.COLLECTIVES, times=len(step.nodes))
        counts.add_bytes(call_name(step.nodes), Term.COLLECTIVES, size)
    if node.kind in REDUCING and node.dtype.bytes == NARROW_BYTES:
        counts.add_bytes("narrow_reduction", Term.COLLECTIVES, size)
    if not crosses_nodes(node, ranks_per_node):
        return 0.0
    own = sum(node_bytes(x, ranks_per_node) for x in step.nodes)
    permute = node.kind is Kind.COLLECTIVE_PERMUTE
    counts.add_bytes(Increment.NETWORK_CARD.value, Term.NETWORK, own, Increment.NETWORK_CARD)
    before = permuted if permute else 0.0
    for size in BEYOND_BYTES:
        if before + own > size:
            name = f"{Increment.BEYOND.value}.{bytes_text(size)}"
            counts.add_bytes(name, Term.NETWORK, min(own, before + own - size), Increment.BEYOND)
    return own if permute else 0.0


def reach_of(node: Node, ranks_per_node: int) -> str:
    """Return `node4` for groups of 4 ranks, each on one node; `network7` for groups across nodes."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return "network" if crosses_nodes(node, ranks_per_node) else "node"
    return _groups_reach(node.groups, ranks_per_node)


@lru_cache(maxsize=1024)
def _groups_reach(groups: Groups, ranks_per_node: int) -> str:
    return f"{'network' if groups_cross_nodes(groups, ranks_per_node) else 'node'}{groups.size}"


def _local(counts: _Counts, step: Step, node: Node) -> int:
    """Count a copy, sum, scale, cast or rowwise operation; return its bytes. An alias costs nothing."""
    match step.action:
        case Action.SUM:
            return _work(counts, "sum", node.operands[0].bytes)
        case Action.SCALE:
            return _work(counts, "scale", node.bytes)
        case Action.ROWWISE:
            return _rowwise(counts, node)
        case Action.CAST:
            return _work(counts, "cast", node.operands[0].bytes + node.bytes)
        case Action.COPY if step.plan is not None and not step.plan.is_alias:
            joined = _work(counts, "copy", sum(x.bytes for x in node.operands)) if step.plan.joins else 0
            if step.plan.layout is Layout.RADIX:
                counts.add_runs("strided", Term.COPIES, node.map.runs / node.map.rows)
                return joined + _work(counts, "strided", node.bytes)
            if step.plan.layout is Layout.ROWS:
                counts.add_runs("gather", Term.COPIES, node.size // step.plan.width)
                return joined + _work(counts, "gather", node.bytes)
            return joined + _work(counts, "copy", node.bytes)
        case _:
            return 0


def _rowwise(counts: _Counts, node: Node) -> int:
    """Count it as the local operation that is probed: of as many bytes, and as dear an element.

    Attention counts by the multiplications of its products, of the rank that sees the most keys.
    """
    name = node.row.operation.counted_as
    if name in attention.OPERATIONS:
        counts.add(ATTEND, Term.COPIES)
        counts.add_multiplied(ATTEND, Term.COPIES, _multiplied(node))
        return node.bytes
    if name == "gather":
        counts.add_runs(name, Term.COPIES, node.size)
    return _work(counts, name, node.operands[0].bytes if name == "sum" else node.bytes)


def _multiplied(node: Node) -> int:
    """Return the multiplications of an operation of attention, where no query sees some keys without these."""
    of = node.row.heads_of([x.size for x in node.operands])
    seen = min(of.keys, max(0, of.queries + max(node.row.first)))
    return attention.OPERATIONS[node.row.name].products * of.heads * of.queries * seen * of.width


def _work(counts: _Counts, name: str, size: int) -> int:
    counts.add(name, Term.COPIES)
    counts.add_bytes(name, Term.COPIES, size)
    if size > CACHED_BYTES:
        counts.add_bytes("uncached", Term.COPIES, size - CACHED_BYTES)
    return size
