"""Small random Programs, mutants of them, and their truth over elements."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from overlayccl_core.program import language as lang
from overlayccl_core.program import maps
from overlayccl_core.program.arithmetics import PRIME, Gain, Modular
from overlayccl_core.program.groups import contiguous, groups_of, strided
from overlayccl_core.program.kinds import Kind, Rejected
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import (
    Node,
    Outputs,
    make_collective,
    make_permute,
    make_scale,
    make_view,
    topological,
)
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import Program, Write
from overlayccl_core.program.recorder import IO, Value, recording
from overlayccl_core.program.schedule import schedule
from overlayccl_core.program.substitution import substitute
from tests.small_problems import exchange

RANKS = 4
LARGEST = 240
GROUPS = (None, contiguous(4, 2).members, strided(4, 2).members, ((0, 3), (1, 2)))


def random_program(seed: int, *, equal: bool = True) -> Program:
    """3 to 9 random operations on 3 inputs, two outputs; half of them keep rows of 3 elements whole.

    equal: some inputs hold the same on all ranks.
    """
    random = np.random.default_rng(seed)
    lanes = (3,) if random.random() < 0.5 else ()
    shapes = {f"x{i}": (*_shape(random), *lanes) for i in range(3)}
    same = tuple(name for name in shapes if equal and random.random() < 0.25)
    problem = exchange(RANKS, shapes, {}, ranks_per_node=2, equal=same, seed=seed)
    with recording(problem) as recorder:
        values = [IO(recorder).read(name) for name in shapes]
        for _ in range(int(random.integers(3, 10))):
            made = _random_value(random, values, len(lanes))
            if made is not None and made.node.size <= LARGEST:
                values.append(made)
        events = recorder.events
    chosen = {("y0",): values[-1], ("y1",): values[int(random.integers(len(values)))]}
    whole = replace(
        problem,
        outputs={port: PortSpec(shape=v.shape) for port, v in chosen.items()},
        segments=(problem.segments[0], Segment(name=("use",), needs=tuple(chosen), after=(("give",),))),
    )
    return Program(whole, [*events, *(Write(port, v.node) for port, v in chosen.items())])


def _shape(random: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(s) for s in random.integers(1, 5, int(random.integers(1, 4))))


def _random_value(random: np.random.Generator, values: list[Value], kept: int) -> Value | None:
    x = values[int(random.integers(len(values)))]
    free = len(x.shape) - kept
    if free < 1:
        return None
    dim = int(random.integers(free))
    maker = (_layout, _layout, _collective, _collective, _arithmetic)[int(random.integers(5))]
    try:
        return maker(random, x, dim, kept, values)
    except Rejected:
        return None


def _rows(x: Value, kept: int) -> Value:
    """x with one axis before those that are kept."""
    return lang.reshape(x, (-1, *x.shape[len(x.shape) - kept :]))


def _layout(random: np.random.Generator, x: Value, dim: int, kept: int, values: list[Value]) -> Value:
    extent = x.shape[dim]
    ranks = RANKS if random.random() < 0.4 else 1
    match int(random.integers(7)):
        case 0:
            free = len(x.shape) - kept
            return lang.permute_dims(x, [*random.permutation(free).tolist(), *range(free, len(x.shape))])
        case 1:
            length = int(random.integers(1, extent + 1))
            return lang.slice_axis(x, dim, random.integers(0, extent - length + 1, ranks), length)
        case 2:
            total = extent + int(random.integers(0, 4))
            return lang.pad(x, dim, random.integers(0, total - extent + 1, ranks), total)
        case 3:
            return lang.index_select(x, random.integers(-1, extent, (ranks, int(random.integers(1, 6)))), dim)
        case 4:
            return lang.broadcast(x, dim, int(random.integers(1, 5)))
        case 5:
            return lang.select(x, (random.random(RANKS) < 0.5).tolist())
        case _:
            y = values[int(random.integers(len(values)))]
            return lang.concat([_rows(x, kept), _rows(y, kept)])


def _collective(random: np.random.Generator, x: Value, dim: int, kept: int, values: list[Value]) -> Value:
    groups = GROUPS[int(random.integers(len(GROUPS)))]
    match int(random.integers(7)):
        case 0 | 1:
            return lang.all_reduce(x, "sum", groups)
        case 2:
            return lang.all_gather(x, dim, groups)
        case 3:
            return lang.reduce_scatter(x, dim, groups)
        case 4:
            return lang.all_to_all(x, dim, groups)
        case 5:  # a gather of which little is read
            full = _rows(lang.all_gather(_rows(x, kept), 0, groups), kept)
            length = int(random.integers(1, full.shape[0] + 1))
            return lang.slice_axis(full, 0, random.integers(0, full.shape[0] - length + 1, RANKS), length)
        case _:
            targets = random.permutation(RANKS)
            pairs = [(r, int(t)) for r, t in enumerate(targets) if random.random() < 0.8]
            return lang.collective_permute(x, pairs)


def _arithmetic(random: np.random.Generator, x: Value, dim: int, kept: int, values: list[Value]) -> Value:
    match int(random.integers(3)):
        case 0:
            return lang.scale(x, 1, int(random.integers(1, 5)))
        case 1:
            return lang.reduce_sum(x, dim) if len(x.shape) > kept + 1 else lang.scale(x, 3)
        case _:
            same = [y for y in values if y.shape == x.shape]
            return lang.add(x, same[int(random.integers(len(same)))])


# ------------------------------------------------------------------------------------------------ mutants
def mutant(program: Program, random: np.random.Generator) -> Program | None:
    """One node changed: where some elements come from, the groups, the partners, a factor, an operation."""
    victims = [x for x in program.nodes if x.kind not in (Kind.INPUT, Kind.SUM)]
    if not victims:
        return None
    victim = victims[int(random.integers(len(victims)))]
    try:
        changed = _changed(victim, random)
        outputs = substitute(program.outputs, {victim: lambda go: changed})
    except Rejected:
        return None
    return schedule(program.problem, outputs)


def _changed(x: Node, random: np.random.Generator) -> Node:
    match x.kind:
        case Kind.VIEW:
            return _other_view(x, random)
        case Kind.SCALE:
            return make_scale(x.operands[0], x.ratio * Fraction(int(random.integers(1, 3)), 2))
        case Kind.COLLECTIVE_PERMUTE:
            return make_permute(x.operands[0], np.roll(x.sources, int(random.integers(1, RANKS))).tolist())
        case Kind.ALL_REDUCE if random.random() < 0.3 and x.size % x.groups.size == 0:
            share = make_collective(Kind.REDUCE_SCATTER, x.operands[0], x.groups)
            return make_collective(Kind.ALL_GATHER, share, x.groups)
    turn = random.permutation(RANKS) if random.random() < 0.5 else np.roll(np.arange(RANKS), 1)
    members = [[int(turn[r]) for r in group] for group in x.groups.members]
    if random.random() < 0.5:  # the same groups, members in another order
        members = [random.permutation(group).tolist() for group in x.groups.members]
    return make_collective(x.kind, x.operands[0], groups_of(members, RANKS))


def _other_view(x: Node, random: np.random.Generator) -> Node:
    if not x.operands:
        return x
    table = x.map.table()
    r, i = int(random.integers(len(table))), int(random.integers(x.size))
    if random.random() < 0.3:  # a stretch from elsewhere, else one element repeated
        length = int(random.integers(1, x.size - i + 1))
        j = int(random.integers(x.size - length + 1))
        table[r, i : i + length] = table[r, j : j + length]
    else:
        source = int(random.integers(-1, sum(y.size for y in x.operands)))
        table[r, i : i + int(random.integers(1, 6))] = source
    return make_view(x.operands, maps.from_table(table), x.dtype)


# ----------------------------------------------------------------------------------------------- the truth
def equal_over_elements(program: Program, reference: Program, seed: int = 0) -> bool:
    """Equality of values and of gains, element by element, nothing reduced."""
    random = np.random.default_rng(seed)
    draws = ((Modular(), lambda shape: random.integers(0, PRIME, shape)), (Gain(), np.ones))
    for field, draw in draws:
        inputs = drawn(program.problem, program.outputs, reference.outputs, draw=draw)
        got, _ = evaluate(program.outputs, inputs, field, program.problem.ranks)
        want, _ = evaluate(reference.outputs, inputs, field, program.problem.ranks)
        tolerance = 1e-9 if isinstance(field, Gain) else 0.0
        if not all(np.allclose(got[p].on_all(), want[p].on_all(), rtol=tolerance, atol=0) for p in got):
            return False
    return True


def drawn(problem: Problem, *outputs: Outputs, draw: object) -> dict:
    """port -> [1 or N, size] for every input below the outputs."""
    nodes = topological([x for some in outputs for x in some.values()])
    found = {}
    for x in nodes:
        if x.kind is Kind.INPUT and x.port not in found:
            found[x.port] = draw((1 if x.attr.equal else problem.ranks, x.size))  # type: ignore[operator]
    return found
