"""The backward Program: the transpose of a linear Program, adapted to the placements at both ends.

A Program is a linear map A between the buffers of all ranks; A^T turns every arrow round:

    all_reduce, scale, cast: itself       all_gather <-> reduce_scatter  all_to_all: itself
    collective_permute: the other way     sum(k) <-> k copies         view: the inverse view, copies added

A^T cannot know the meaning of a replicated value, nor of invalid elements:

    output replicate, cotangent replicate: every rank holds the same cotangent -> scale by 1/N at the entry
    input replicate, cotangent replicate: the sum over ranks is wanted         -> all_reduce at the exit
    output or input valid in part                                              -> zeros elsewhere

All else: nothing. Segments turn round: needs <-> gives. The result is the mechanical transpose; `simplify` removes
the collectives that only move equal copies.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.arithmetics import not_linear
from overlayccl_core.program.groups import world
from overlayccl_core.program.kinds import DType, Kind, Placement, Rejected
from overlayccl_core.program.nodes import (
    Node,
    Outputs,
    Port,
    make_cast,
    make_collective,
    make_permute,
    make_scale,
    make_sum,
    make_view,
)
from overlayccl_core.program.problem import Direction, PortSpec, Problem, Segment
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule

_TWIN = {Kind.ALL_GATHER: Kind.REDUCE_SCATTER, Kind.REDUCE_SCATTER: Kind.ALL_GATHER}


def cotangent_port(port: Port) -> Port:
    """("partial", 0, 3) -> ("d_partial", 0, 3)"""
    return (f"d_{port[0]}", *port[1:])


def backward_problem(problem: Problem) -> Problem:
    """Return the Problem of the backward: inputs are the cotangents of the outputs, outputs those of the inputs.

    Raises:
        ValueError: The Problem is a backward already, or not linear.
    """
    if problem.direction is Direction.BACKWARD or not problem.linear:
        what = "a backward" if problem.direction is Direction.BACKWARD else "not linear"
        raise ValueError(
            f"{problem.name} at {problem.case.id} is {what}: only linear forward Problems have a transpose"
        )
    before: dict[Port, list[Port]] = {s.name: [] for s in problem.segments}
    for s in problem.segments:
        for name in s.after:
            before[name].append(cotangent_port(s.name))
    segments = tuple(
        Segment(
            name=cotangent_port(s.name),
            needs=tuple(map(cotangent_port, s.gives)),
            gives=tuple(map(cotangent_port, s.needs)),
            after=tuple(before[s.name]),
        )
        for s in reversed(problem.segments)
    )
    return Problem(
        case=problem.case,
        direction=Direction.BACKWARD,
        inputs={cotangent_port(p): _turned(s) for p, s in reversed(list(problem.outputs.items()))},
        outputs={cotangent_port(p): _turned(s) for p, s in reversed(list(problem.inputs.items()))},
        segments=segments,
        parameters=problem.parameters,
    )


def _turned(spec: PortSpec) -> PortSpec:
    return replace(spec, placement=spec.cotangent, cotangent=spec.placement)


def transpose(program: Program, problem: Problem) -> Program:
    """Return the mechanical transpose of a forward Program.

    Args:
        problem: backward_problem(program.problem).
    Raises:
        Rejected: An operation of the Program is not linear.
    """
    ranks = problem.ranks
    parts: dict[Node, list[Node]] = {}  # forward node -> contributions to its cotangent
    for port, x in program.outputs.items():
        parts.setdefault(x, []).append(_entry(port, program.problem.outputs[port], problem))
    for x in reversed(program.nodes):
        if x in parts and x.kind is not Kind.INPUT:
            cotangent = _total(parts.pop(x), x.size, x.dtype)
            for y, part in _step(x, cotangent):
                parts.setdefault(y, []).append(part)
    outputs: Outputs = {}
    for port in reversed(list(program.problem.inputs)):
        spec = program.problem.inputs[port]
        x = program.problem.input_node(port)
        outputs[cotangent_port(port)] = _exit(_total(parts.get(x, []), x.size, x.dtype), spec, ranks)
    return schedule(problem, {port: outputs[port] for port in problem.outputs})


def _entry(port: Port, spec: PortSpec, problem: Problem) -> Node:
    c = problem.input_node(cotangent_port(port))
    if spec.placement is spec.cotangent is Placement.REPLICATE:
        c = make_scale(c, Fraction(1, problem.ranks))
    return _only_where_valid(c, spec)


def _exit(c: Node, spec: PortSpec, ranks: int) -> Node:
    if spec.placement is spec.cotangent is Placement.REPLICATE:
        c = make_collective(Kind.ALL_REDUCE, c, world(ranks))
    return _only_where_valid(c, spec)


def _only_where_valid(c: Node, spec: PortSpec) -> Node:
    return c if spec.valid is None else make_view([c], maps.leading(spec.valid, c.size))


def _total(parts: Sequence[Node], size: int, dtype: DType) -> Node:
    """The sum of contributions; none: zeros."""
    if not parts:
        return make_view([], maps.zeros(size), dtype)
    return make_sum(make_view(parts, maps.identity(size * len(parts))), len(parts))


def _step(x: Node, c: Node) -> list[tuple[Node, Node]]:
    """(operand, contribution to its cotangent) for one forward node with cotangent c."""
    if wrong := not_linear(x):
        raise Rejected(f"{wrong}, which is not linear: it has no transpose")
    if x.kind is Kind.VIEW:
        return _view_step(x, c)
    y = x.operands[0]
    match x.kind:
        case Kind.SCALE:
            back = make_scale(c, x.ratio)
        case Kind.CAST:
            back = make_cast(c, y.dtype)
        case Kind.SUM:
            back = make_view([c], maps.copies(c.size, x.count))
        case Kind.COLLECTIVE_PERMUTE:
            back = make_permute(c, _reversed_sources(x.sources), x.label)
        case _:
            back = make_collective(_TWIN.get(x.kind, x.kind), c, x.groups, x.label)
    return [(y, back)]


def _reversed_sources(sources: tuple[int, ...]) -> list[int]:
    back = [-1] * len(sources)
    for rank, source in enumerate(sources):
        if source >= 0:
            back[source] = rank
    return back


def _view_step(x: Node, c: Node) -> list[tuple[Node, Node]]:
    """`_step` of a view: an element read k times gets the sum of k layers."""
    cotangents = []
    base = 0
    for y in x.operands:
        layers = _inverse(x.map, base, y.size)
        if layers:
            cotangents.append((y, make_sum(make_view([c], maps.side_by_side(layers)), len(layers))))
        base += y.size
    return cotangents


_inverse = lru_cache(maxsize=256)(map_algebra.inverse_layers)  # the layers of a model share their maps
