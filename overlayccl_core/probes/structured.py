"""Structured probes: each learns one thing.

Collectives of b bytes: alone (each awaited before the next starts), together (all in flight) and in a pipeline of
two; calls of several values; reductions in 16 bits; collectives with local work between them; copies in sequence,
strided and gathered; sums, scales, casts, exponentials; graph boundaries; nothing.

A called library waits at the write of a result. In a compiled graph a collective follows another only by reading
it, so there the next one takes the result.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.probes.probe import Probe, ProbeBuilder, ProbeRole, operand_size, resized
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.groups import Groups, contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import COALESCED, COLLECTIVES, REDUCING, DType, Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.rowwise import RowAttr


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """(payload in float32 elements, count) pairs for each way of issuing collectives."""

    alone: tuple[tuple[int, int], ...]
    together: tuple[tuple[int, int], ...]
    pipeline: tuple[tuple[int, int], ...] = ()


WORLD_GRID = Grid(
    alone=((2**8, 1), (2**8, 4), (2**13, 3), (2**16, 2), (2**19, 1), (2**21, 1)),
    together=((2**8, 2), (2**8, 12), (2**13, 4), (2**16, 4), (2**19, 2), (2**21, 2)),
    pipeline=((2**11, 6),),
)
COALESCED_GRID = (
    (2**8, 4, 1),
    (2**8, 32, 1),
    (2**13, 8, 3),
    (2**16, 8, 1),
    (2**19, 4, 1),
)  # last: calls in flight
NARROW_GRID = ((2**14, 3), (2**18, 2), (2**20, 1))
HEADS, HEAD_DIM = 8, 16  # of attention
ARITHMETIC_SIZES = ((2**10, 16), (2**16, 4), (2**19, 1), (2**22, 1))
AFTER_WORK_GRID = ((2**10, 6), (2**14, 4), (2**18, 3), (2**21, 1))
SUBGROUP_GRID = Grid(alone=((2**8, 3), (2**17, 2), (2**20, 1)), together=((2**8, 6), (2**17, 3)))
# Three calls of one graph do not give the time of a call: the first includes the graph's own time.
COMPILED_SUBGROUP_GRID = replace(SUBGROUP_GRID, alone=((2**8, 1), (2**17, 2), (2**20, 1)))

Layout = Callable[[int], Map]
Operation = Callable[[Sequence[Node]], Node]  # of one operand, or of two that are joined


def structured_probes(deployment: Deployment) -> list[Probe]:
    """Return all structured probes of a deployment, in a fixed order."""
    new = partial(ProbeBuilder, deployment.ranks, deployment.ranks_per_node, uniform=deployment.uniform)
    probes = list(_collectives(new, "world", world(deployment.ranks), WORLD_GRID))
    grid = COMPILED_SUBGROUP_GRID if deployment.uniform else SUBGROUP_GRID
    for name, groups in subgroups(deployment).items():
        probes += _collectives(new, name, groups, grid)
    return [
        *probes,
        *_coalesced(new),
        *_narrow(new),
        *_after_work(new),
        *_local_work(new),
        *_graphs(new),
    ]


def subgroups(deployment: Deployment) -> dict[str, Groups]:
    """Return the groups below the world: within and across nodes; halves for one node, or one rank a node."""
    ranks, per_node = deployment.ranks, deployment.ranks_per_node
    if per_node not in (1, ranks):
        return {"within-nodes": contiguous(ranks, per_node), "across-nodes": strided(ranks, per_node)}
    if ranks < 4 or ranks % 2:
        return {}
    return {"halves": groups_of([range(ranks // 2), range(ranks // 2, ranks)], ranks)}


# -------------------------------------------------------------------------------------------- collectives
def _collectives(new: Callable[[], ProbeBuilder], where: str, groups: Groups, grid: Grid) -> Iterator[Probe]:
    for kind in COLLECTIVES:
        for way, most in (("alone", 1), ("together", None), ("pipeline", 2)):
            for payload, times in getattr(grid, way):
                probe = new()
                size = operand_size(kind, payload, groups.size)
                in_flight(probe, kind, [size] * times, groups, most or times)
                yield named(probe, f"{kind.value}-{where}-{way}", times, payload)


def named(
    probe: ProbeBuilder, name: str, times: int, elements: int, role: ProbeRole = ProbeRole.STRUCTURED
) -> Probe:
    """Finish a probe of operations with so many float32 elements each."""
    return probe.finish(f"{name}-{times}x{bytes_text(elements * DType.FLOAT32.bytes)}", role)


def _coalesced(new: Callable[[], ProbeBuilder]) -> Iterator[Probe]:
    for kind in COALESCED:
        for payload, values, calls in COALESCED_GRID:
            probe = new()
            coalesced(probe, kind, operand_size(kind, payload, probe.ranks), values, calls)
            each = f"{values}x{bytes_text(payload * DType.FLOAT32.bytes)}"
            yield probe.finish(f"{kind.value}-coalesced-{calls}x{each}")


def coalesced(probe: ProbeBuilder, kind: Kind, size: int, values: int, calls: int) -> None:
    """Issue calls of several operands of a size, all in flight."""
    inputs = [[probe.read(size) for _ in range(values)] for _ in range(calls)]
    for y in [y for xs in inputs for y in probe.issue_call(kind, xs)]:
        probe.write(y)


def _narrow(new: Callable[[], ProbeBuilder]) -> Iterator[Probe]:
    """Reductions in 16 bits, one after another."""
    for kind in REDUCING:
        for payload, times in NARROW_GRID:
            probe = new()
            size = operand_size(kind, payload, probe.ranks)
            in_flight(probe, kind, [size] * times, world(probe.ranks), 1, dtype=DType.BFLOAT16)
            name = f"{kind.value}-bfloat16-{times}x{bytes_text(size * DType.BFLOAT16.bytes)}"
            yield probe.finish(name)


def _after_work(new: Callable[[], ProbeBuilder]) -> Iterator[Probe]:
    """Collectives one after another, each of a moved copy."""
    for kind in (Kind.ALL_REDUCE, Kind.ALL_TO_ALL):
        for payload, times in AFTER_WORK_GRID:
            probe = new()
            size = operand_size(kind, payload, probe.ranks)
            in_flight(probe, kind, [size] * times, world(probe.ranks), 1, moved=turned(size))
            yield named(probe, f"{kind.value}-after-work", times, payload)


def turned(size: int) -> Map:
    """Move the last quarter before the others."""
    return Map(1, size, [0, size // 4], [size - size // 4, 0])


def in_flight(
    probe: ProbeBuilder,
    kind: Kind,
    sizes: Sequence[int],
    groups: Groups,
    most: int,
    *,
    dtype: DType = DType.FLOAT32,
    moved: Map | None = None,
    shift: int | None = None,
) -> None:
    """Issue a collective of each size, with at most `most` outstanding.

    Args:
        moved: A copy of each operand before its collective, if any.
        shift: The shift of permutes; None: all shifts in turn, as in an exchange.
    """
    fresh = [] if probe.uniform else [probe.read(size, dtype) for size in sizes]
    outstanding: list[Node] = []
    for number, size in enumerate(sizes):
        before = outstanding.pop(0) if len(outstanding) == most else None
        if probe.uniform:
            operand = probe.read(size, dtype) if before is None else resized(before, size)
        else:
            operand = fresh[number]
            if before is not None:
                probe.write(before)
        if moved is not None:
            operand = nodes.make_view([operand], moved)
        by = 1 + number % (groups.size - 1) if shift is None else shift
        outstanding.append(probe.issue(kind, operand, groups, shift=by))
    for node in outstanding:
        probe.write(node)


# ------------------------------------------------------------------------------------------------ local work
def transposed(width: int) -> Layout:
    """Transpose a square of rows of `width` elements: strided, with one pattern everywhere."""

    def layout(size: int) -> Map:
        side = int(np.sqrt(size // width))
        return maps.permuted((side, side, width), (1, 0, 2))

    return layout


def shuffled(width: int) -> Layout:
    """Reorder rows of `width` elements without a pattern."""

    def layout(size: int) -> Map:
        rows = np.random.default_rng(width).permutation(size // width)
        return Map(1, rows.size * width, np.arange(rows.size) * width, rows * width)

    return layout


def repeated(count: int) -> Layout:
    return lambda size: maps.copies(size, count)


def _copied(layout: Layout) -> Operation:
    return lambda xs: nodes.make_view(xs, layout(xs[0].size))


def attended(xs: Sequence[Node]) -> Node:
    """Attention of a value to itself, all of it seen: its queries are its keys and its values."""
    size = xs[0].size // (HEADS * HEAD_DIM)
    attr = RowAttr(name="attend", width=HEAD_DIM, first=(size - 1,), heads=HEADS)
    return nodes.make_rowwise(attr, [xs[0]] * 3)


# name, operation, operands of each, (elements of an operand, how many)
LOCAL_WORK: tuple[tuple[str, Operation, int, tuple[tuple[int, int], ...]], ...] = (
    ("repeat-4", _copied(repeated(4)), 1, ((2**12, 8), (2**18, 2), (2**20, 1))),
    ("transpose-width-1", _copied(transposed(1)), 1, ((2**12, 8), (2**18, 2))),
    ("transpose-width-16", _copied(transposed(16)), 1, ((2**18, 2),)),
    ("transpose-width-256", _copied(transposed(256)), 1, ((2**18, 2),)),
    ("shuffle-width-1", _copied(shuffled(1)), 1, ((2**12, 4), (2**17, 1))),
    ("shuffle-width-16", _copied(shuffled(16)), 1, ((2**16, 2),)),
    ("shuffle-width-256", _copied(shuffled(256)), 1, ((2**18, 2),)),
    ("join", _copied(lambda size: maps.identity(2 * size)), 2, ((2**10, 16), (2**17, 4), (2**21, 1))),
    ("sum-2", lambda xs: nodes.make_sum(xs[0], 2), 1, ARITHMETIC_SIZES),
    ("sum-8", lambda xs: nodes.make_sum(xs[0], 8), 1, ARITHMETIC_SIZES),
    ("scale", lambda xs: nodes.make_scale(xs[0], 3), 1, ARITHMETIC_SIZES),
    ("cast", lambda xs: nodes.make_cast(xs[0], DType.BFLOAT16), 1, ARITHMETIC_SIZES),
    ("exp", lambda xs: nodes.make_rowwise(RowAttr(name="exp"), xs), 1, ARITHMETIC_SIZES),
    ("attend", attended, 1, ((2**11, 8), (2**14, 4), (2**16, 1))),
)


def _local_work(new: Callable[[], ProbeBuilder]) -> Iterator[Probe]:
    for name, operation, operands, sizes in LOCAL_WORK:
        for size, times in sizes:
            probe = new()
            for xs in [[probe.read(size) for _ in range(operands)] for _ in range(times)]:
                probe.write(operation(xs))
            yield named(probe, name, times, operands * size)


def _graphs(new: Callable[[], ProbeBuilder]) -> Iterator[Probe]:
    """Boundaries alone, and between unlike graphs: equal ones compile to one, and a device may keep only few."""
    for boundaries in (0, 4, 16):
        probe = new()
        x = probe.read(2**8)
        for _ in range(boundaries):
            probe.boundary()
        probe.write(x)
        yield probe.finish(f"nothing-{boundaries + 1}-graphs")
    for name, graphs in (("all_reduce", 4), ("scale", 4), ("scale", 8)):
        probe = new()
        for x in [probe.read(2 ** (8 + number)) for number in range(graphs)]:
            probe.write(nodes.make_scale(x, 3) if name == "scale" else probe.issue(Kind.ALL_REDUCE, x))
            probe.boundary()
        yield probe.finish(f"{name}-a-graph-each-{graphs}x1KiB-and-more")
