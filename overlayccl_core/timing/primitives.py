"""Programs of one call each, for the selftest of a library."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.backends.trials import Values
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.configuration.topology import Limit
from overlayccl_core.deployments.capabilities import (
    TRIED_DTYPE,
    LibraryCall,
    Shape,
    call_of,
    permute_shape,
    shape_text,
)
from overlayccl_core.program import maps, nodes
from overlayccl_core.program.arithmetics import NUMPY_DTYPES, Real
from overlayccl_core.program.calls import Call, call_name, make_call
from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import Groups, contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import COALESCED, FLOATS, DType, Kind, Placement, Reduction
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import Issue, Program, Read, Write

INPUT: Port = ("x",)
OUTPUT: Port = ("y",)
LARGEST_INTEGER = 8
QUARTER = 4
SEVERAL = 3  # values of a coalesced call
EXACT = 256  # integers up to 256 are exact in bfloat16, in any order of adding


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A Program of one call.

    Attributes:
        block: Elements sent or received together; the larger side of the call has one block for each rank of a
            group.
        like: The same call with a small payload.
        pattern: Primitive with the values of each block, over and over; its block is odd, so an offset by a power
            of two shows. None: it has values of its own.
    """

    program: Program
    collectives: Call
    block: int
    like: "Primitive | None" = None
    pattern: "Primitive | None" = None

    @property
    def call(self) -> LibraryCall:
        """The call as the capabilities table names it."""
        return call_of(self.collectives, self.program.problem.case)

    def over(self, limits: Iterable[Limit], payload_bytes: int | None = None) -> Limit | None:
        """Return the first published limit exceeded with `payload_bytes` on a rank (default: its own payload)."""
        call, case = self.call, self.program.problem.case
        spread = case.ranks // case.ranks_per_node
        if self.collectives[0].kind is not Kind.COLLECTIVE_PERMUTE:
            of_node = self.collectives[0].groups.array // case.ranks_per_node
            spread = max(len(np.unique(row)) for row in of_node)
        asked = {
            "ranks": call.shape[0],
            "nodes": spread,
            "payload_bytes": payload_bytes or call.payload_bytes,
        }
        return next((one for one in limits if one.refuses(self.collectives[0].kind, **asked)), None)

    @property
    def name(self) -> str:
        """A readable name: `all_reduce_max over 2 of 4 ranks, bfloat16, 64KiB`."""
        call = self.call
        over = f"{shape_text(call.shape)} of {self.program.problem.ranks} ranks"
        return f"{call.operation} over {over}, {call.dtype.value}, {bytes_text(call.payload_bytes)}"

    def random_inputs(self, seed: int) -> dict[Port, NDArray[np.float64]]:
        """Draw small integers with exact sums over a group in every dtype: port -> float64[N, elements]."""
        spec = self.program.problem.inputs[INPUT]
        largest = max(min(LARGEST_INTEGER, EXACT // self.call.shape[0]), 1)
        shape = (self.program.problem.ranks, spec.size)
        random = np.random.default_rng(seed)
        return {INPUT: random.integers(-largest, largest + 1, shape).astype(np.float64)}

    def floats_of_places(self, seed: int) -> dict[Port, NDArray[np.float64]]:
        """Draw unit normals, equal at equal places of the groups: port -> float64[N, elements]."""
        groups = self.collectives[0].groups
        spec = self.program.problem.inputs[INPUT]
        drawn = np.random.default_rng(seed).standard_normal((groups.size, spec.size))
        typed = drawn.astype(NUMPY_DTYPES[spec.dtype]).astype(np.float64)
        return {INPUT: typed[groups.place]}

    def meaning(self, inputs: Values) -> NDArray[np.float64]:
        """Compute the correct result of every rank in NumPy: float64[N, elements]."""
        typed = {INPUT: inputs[INPUT].astype(NUMPY_DTYPES[self.collectives[0].dtype])}
        held, _ = evaluate(self.program.outputs, typed, Real(), self.program.problem.ranks)
        return held[OUTPUT].on_all().astype(np.float64)


def primitives(deployment: Deployment, elements: int) -> list[Primitive]:
    """Return every collective over every shape of groups (`shapes`) and every permute (`permutes`), in every dtype.

    If ranks compile, shapes and dtypes vary separately: every shape in float32, every dtype with all ranks.
    """
    tried = []
    for dtype in FLOATS:
        for groups in shapes(deployment):
            if groups.is_world or dtype is TRIED_DTYPE or not deployment.uniform:
                tried += _over(deployment, groups, dtype, elements)
        of = permutes(deployment.ranks)
        if deployment.uniform and dtype is not TRIED_DTYPE:
            of = of[:1]
        tried += [permute(deployment, dtype, elements, sources) for sources in of]
    return tried


def shapes(deployment: Deployment) -> list[Groups]:
    """Return the groups to try: all ranks, parts of a node, and the ranks at equal places of the parts.

    If nothing is compiled, members in no order follow: a closed library takes minutes to compile these, then
    refuses.
    """
    ranks, on_a_node = deployment.ranks, deployment.ranks_per_node
    parts = [g for g in range(2, on_a_node + 1) if on_a_node % g == 0 and g < ranks]
    tried = [world(ranks), *(contiguous(ranks, g) for g in parts)]
    tried += [strided(ranks, g) for g in parts]
    if not deployment.uniform:
        tried += [
            groups_of(np.array(_from_both_ends(ranks)).reshape(-1, groups.size), ranks) for groups in tried
        ]
    return list(dict.fromkeys(tried))


def _from_both_ends(ranks: int) -> list[int]:
    """0, N - 1, 1, N - 2, ..."""
    return [number // 2 if number % 2 == 0 else ranks - 1 - number // 2 for number in range(ranks)]


def at_payloads(deployment: Deployment, largest: int, elements: int) -> list[Primitive]:
    """Return every collective over all ranks and over the groups of tiers, in float32, with `largest` bytes a call.

    If nothing is compiled, payloads also go down by quarters to those of `elements`, the primitives in `like`: at
    each size a library may cut a payload into chunks differently. All sizes are approximate.
    """
    ranks, on_a_node = deployment.ranks, deployment.ranks_per_node
    tiers = [world(ranks)]
    if on_a_node not in (1, ranks):
        tiers += [contiguous(ranks, on_a_node), strided(ranks, on_a_node)]
    small = [one for groups in tiers for one in _over(deployment, groups, TRIED_DTYPE, elements)]
    small.append(permute(deployment, TRIED_DTYPE, elements, permutes(ranks)[0]))
    sizes = [largest]
    while not deployment.uniform and sizes[-1] // QUARTER > elements * TRIED_DTYPE.bytes:
        sizes.append(sizes[-1] // QUARTER)
    return [larger(deployment, one, size) for size in sizes for one in small]


def larger(deployment: Deployment, small: Primitive, size: int) -> Primitive:
    """Return the same call with about `size` bytes: a whole multiple of its payload."""
    made = _of_block(deployment, small, small.block * max(size // small.call.payload_bytes, 1))
    return replace(made, like=small, pattern=_of_block(deployment, small, small.block - 1 | 1))


def _of_block(deployment: Deployment, small: Primitive, block: int) -> Primitive:
    y = small.collectives[0]
    if y.kind is Kind.COLLECTIVE_PERMUTE:
        return permute(deployment, y.dtype, block, y.sources)
    reduction = getattr(y.attr, "reduction", Reduction.SUM)
    values, elements = len(small.collectives), block * y.groups.size
    return grouped(deployment, y.kind, y.groups, y.dtype, elements, reduction, values=values)


def _over(deployment: Deployment, groups: Groups, dtype: DType, elements: int) -> list[Primitive]:
    return [
        *(grouped(deployment, kind, groups, dtype, elements) for kind in _GROUPED),
        grouped(deployment, Kind.ALL_REDUCE, groups, dtype, elements, Reduction.MAX),
        *(grouped(deployment, kind, groups, dtype, elements, values=SEVERAL) for kind in COALESCED),
    ]


_GROUPED = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


def grouped(
    deployment: Deployment,
    kind: Kind,
    groups: Groups,
    dtype: DType,
    elements: int,
    reduction: Reduction = Reduction.SUM,
    *,
    values: int = 1,
) -> Primitive:
    """Build one call over replica groups.

    Args:
        elements: Elements at the larger side, rounded up to a multiple of the group size.
        values: Cut the input into this many parts of unlike sizes, in one call (for kinds as large on both sides).
    """
    whole = -(-elements // groups.size) * groups.size
    x = _input(whole // groups.size if kind is Kind.ALL_GATHER else whole, dtype)
    cuts = [whole * i**2 // values**2 for i in range(values + 1)]
    parts = [nodes.make_view([x], maps.window(a, b - a)) for a, b in pairwise(cuts)] if values > 1 else [x]
    return _primitive(
        deployment, x, make_call(kind, parts, groups, reduction=reduction), whole // groups.size
    )


def permute(deployment: Deployment, dtype: DType, elements: int, sources: Sequence[int]) -> Primitive:
    """Build a permute of all ranks: rank r receives from sources[r], or holds zeros (-1: no sender)."""
    x = _input(elements, dtype)
    return _primitive(deployment, x, [nodes.make_permute(x, sources)], elements)


def permutes(ranks: int) -> list[tuple[int, ...]]:
    """Return the senders of one permute per shape, ring first; two and three ranks have rings and lines only."""
    half, order = ranks // 2, _from_both_ends(ranks)
    before = dict(zip(order, np.roll(order, 1).tolist(), strict=True))
    some = [
        tuple(np.roll(range(ranks), 1).tolist()),  # ring
        (-1, *range(ranks - 1)),  # line
        tuple(before[r] for r in range(ranks)),  # a ring in no order
        tuple(np.roll(range(ranks), half).tolist()),  # swap
        (*[-1] * half, *range(ranks - half)),  # half
    ]
    tried: dict[Shape, tuple[int, ...]] = {}
    for sources in some:
        tried.setdefault(permute_shape(sources), sources)
    return list(tried.values())


def _input(size: int, dtype: DType) -> Node:
    return nodes.make_input(INPUT, equal=False, size=size, dtype=dtype)


def _primitive(deployment: Deployment, x: Node, made: Sequence[Node], block: int) -> Primitive:
    y = nodes.make_view(made, maps.identity(sum(z.size for z in made)))

    def spec(node: Node) -> PortSpec:
        return PortSpec(shape=(node.size,), dtype=node.dtype, placement=Placement.VARYING)

    problem = Problem(
        case=Case(
            problem="primitive",
            ranks=deployment.ranks,
            ranks_per_node=deployment.ranks_per_node,
            dtype=x.dtype,
            uniform=deployment.uniform,
            name=call_name(made),
            parameters=(),
        ),
        inputs={INPUT: spec(x)},
        outputs={OUTPUT: spec(y)},
        segments=(Segment(name=("use",), needs=(OUTPUT,)),),
        parameters={},
        linear=False,
    )
    program = Program(problem, [Read(INPUT), Issue(tuple(made)), Write(OUTPUT, y)])
    return Primitive(program=program, collectives=tuple(made), block=block)
