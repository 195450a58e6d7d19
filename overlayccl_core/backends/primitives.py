"""One Program for each collective, group size and dtype: what a selftest tries on a library."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.deployments.capabilities import operation_name
from overlayccl_core.program import nodes
from overlayccl_core.program.arithmetics import NUMPY_DTYPES, Real
from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import Groups, groups_of
from overlayccl_core.program.kinds import FLOATS, DType, Kind, Placement, Reduction
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.payload import group_size, payload_bytes
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import Issue, Program, Read, Write

INPUT: Port = ("x",)
OUTPUT: Port = ("y",)
LARGEST_INTEGER = 8
EXACT = 256  # whole numbers up to there are exact in bfloat16, in whatever order they are added


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A Program of one collective."""

    program: Program
    collective: Node

    @property
    def operation(self) -> str:
        """As the capabilities table names it."""
        return operation_name(self.collective)

    @property
    def group_size(self) -> int:
        """Ranks of a replica group; all ranks for a permute."""
        return group_size(self.collective)

    @property
    def payload_bytes(self) -> int:
        """At the larger side."""
        return payload_bytes(self.collective)

    @property
    def name(self) -> str:
        """`all_reduce_max over 2 of 4 ranks, bfloat16`."""
        over = f"{self.group_size} of {self.program.problem.ranks} ranks"
        return f"{self.operation} over {over}, {self.collective.dtype.value}"

    def random_inputs(self, seed: int) -> dict[Port, NDArray[np.float64]]:
        """port -> float64[N, elements]: small integers, whose sums over a group are exact in every dtype."""
        spec = self.program.problem.inputs[INPUT]
        largest = max(min(LARGEST_INTEGER, EXACT // self.group_size), 1)
        shape = (self.program.problem.ranks, spec.size)
        random = np.random.default_rng(seed)
        return {INPUT: random.integers(-largest, largest + 1, shape).astype(np.float64)}

    def floats_of_places(self, seed: int) -> dict[Port, NDArray[np.float64]]:
        """port -> float64[N, elements]: unit normals; members with one place in their groups have the same."""
        groups = self.collective.groups
        spec = self.program.problem.inputs[INPUT]
        drawn = np.random.default_rng(seed).standard_normal((groups.size, spec.size))
        typed = drawn.astype(NUMPY_DTYPES[spec.dtype]).astype(np.float64)
        return {INPUT: typed[groups.place]}

    def meaning(self, inputs: dict[Port, NDArray[np.float64]]) -> NDArray[np.float64]:
        """float64[N, elements]: what every rank must get."""
        typed = {INPUT: inputs[INPUT].astype(NUMPY_DTYPES[self.collective.dtype])}
        held, _ = evaluate(self.program.outputs, typed, Real(), self.program.problem.ranks)
        return held[OUTPUT].on_all().astype(np.float64)


def primitives(deployment: Deployment, elements: int) -> list[Primitive]:
    """Every collective, over every size of contiguous groups that divides the ranks, in every dtype."""
    ranks = deployment.ranks
    sizes = [g for g in range(2, ranks + 1) if ranks % g == 0]
    tried = []
    for dtype in FLOATS:
        for size in sizes:
            groups = groups_of([range(k, k + size) for k in range(0, ranks, size)], ranks)
            tried += [grouped(deployment, kind, groups, dtype, elements) for kind in _GROUPED]
            tried.append(grouped(deployment, Kind.ALL_REDUCE, groups, dtype, elements, Reduction.MAX))
        tried.append(permute(deployment, dtype, elements))
    return tried


_GROUPED = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


def grouped(
    deployment: Deployment,
    kind: Kind,
    groups: Groups,
    dtype: DType,
    elements: int,
    reduction: Reduction = Reduction.SUM,
) -> Primitive:
    """One collective over replica groups; `elements` at its larger side, made a multiple of the group."""
    whole = -(-elements // groups.size) * groups.size
    x = _input(whole // groups.size if kind is Kind.ALL_GATHER else whole, dtype)
    return _primitive(deployment, x, nodes.make_collective(kind, x, groups, reduction=reduction))


def permute(deployment: Deployment, dtype: DType, elements: int) -> Primitive:
    """Every rank sends to the next; the last one to nobody, so the first holds zeros."""
    x = _input(elements, dtype)
    return _primitive(deployment, x, nodes.make_permute(x, range(-1, deployment.ranks - 1)))


def _input(size: int, dtype: DType) -> Node:
    return nodes.make_input(INPUT, equal=False, size=size, dtype=dtype)


def _primitive(deployment: Deployment, x: Node, y: Node) -> Primitive:
    def spec(node: Node) -> PortSpec:
        return PortSpec(shape=(node.size,), dtype=node.dtype, placement=Placement.VARYING)

    problem = Problem(
        case=Case(
            problem="primitive",
            ranks=deployment.ranks,
            ranks_per_node=deployment.ranks_per_node,
            dtype=x.dtype,
            uniform=deployment.uniform,
            name=f"{operation_name(y)}-{group_size(y)}",
            parameters=(),
        ),
        inputs={INPUT: spec(x)},
        outputs={OUTPUT: spec(y)},
        segments=(Segment(name=("use",), needs=(OUTPUT,)),),
        parameters={},
        linear=False,
    )
    return Primitive(program=Program(problem, [Read(INPUT), Issue(y), Write(OUTPUT, y)]), collective=y)
