"""Strategies of permutes for the Problem `captured`, to be written as schedules."""

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.problems.captured import KINDS
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.schedules import msccl
from overlayccl_core.schedules.program_chunks import is_of_permutes
from overlayccl_core.schedules.schedule import program
from tests.known_cases import case, programs

SUM, GATHER, SCATTER_SUM, EXCHANGE = (KINDS[i] for i in (0, 2, 3, 5))
SOURCE = '''
from overlayccl_core.program.language import (
    add,
    cast,
    collective_permute,
    concat,
    flatten,
    index_select,
    pad,
    reduce_sum,
    reshape,
    scale,
    select,
    slice_axis,
)


def ring(io, p):
    """Shares go once round the ring, adding up, and once more, as sums."""
    n = p.world_size
    shares = reshape(io.read("given", 0), (n, -1))
    on = [(r, (r + 1) % n) for r in range(n)]
    moving = slice_axis(shares, 0, range(n), 1)
    for step in range(1, n):
        mine = slice_axis(shares, 0, [(r - step) % n for r in range(n)], 1)
        moving = add(collective_permute(moving, on), mine)
    came = [moving]
    for _ in range(n - 1):
        moving = collective_permute(moving, on)
        came += [moving]
    by_share = index_select(concat(came), [[(r + 1 - share) % n for share in range(n)] for r in range(n)])
    io.write("result", 0, flatten(by_share))


def scattering_ring(io, p):
    """Sums of shares go round the ring, and each stops at its rank."""
    n = p.world_size
    shares = reshape(io.read("given", 0), (n, -1))
    moving = slice_axis(shares, 0, [(r - 1) % n for r in range(n)], 1)
    for step in range(1, n):
        mine = slice_axis(shares, 0, [(r - 1 - step) % n for r in range(n)], 1)
        moving = add(collective_permute(moving, [(r, (r + 1) % n) for r in range(n)]), mine)
    io.write("result", 0, flatten(moving))


def recursive_doubling(io, p):
    """log2(N) exchanges of whole tensors."""
    n = p.world_size
    total = io.read("given", 0)
    for k in range(n.bit_length() - 1):
        total = add(total, collective_permute(total, [(r, r ^ (1 << k)) for r in range(n)]))
    io.write("result", 0, total)


def gathering_by_doubling(io, p):
    """log2(N) exchanges, each of all that a rank has."""
    n = p.world_size
    have = reshape(io.read("given", 0), (1, -1))
    for k in range(n.bit_length() - 1):
        came = collective_permute(have, [(r, r ^ (1 << k)) for r in range(n)])
        both = concat([have, came])
        size = 1 << k
        low, high = list(range(size)), list(range(size, 2 * size))
        have = index_select(both, [high + low if r & size else low + high for r in range(n)])
    io.write("result", 0, flatten(have))


def in_two_halves(io, p):
    """Two calls in flight between the same ranks: halves of what the next one is to have."""
    n = p.world_size
    x = io.read("given", 0)
    halves = reshape(x, (n, 2, -1))
    rows = []
    for d in range(n):
        mine = slice_axis(halves, 0, [(r + d) % n for r in range(n)], 1)
        on = [(r, (r + d) % n) for r in range(n)]
        parts = [slice_axis(mine, 1, half, 1) for half in range(2)]
        if d:
            parts = [collective_permute(part, on) for part in parts]
        rows += [reshape(concat(parts, 1), (1, -1))]
    by_source = index_select(concat(rows), [[(r - source) % n for source in range(n)] for r in range(n)])
    io.write("result", 0, flatten(by_source))


def star(io, p):
    """Everybody sends to rank 0, which adds up one after the other and sends the sum to everybody."""
    n = p.world_size
    x = io.read("given", 0)
    total = x
    for source in range(1, n):
        total = add(total, collective_permute(x, [(source, 0)]))
    sums = select(total, [r == 0 for r in range(n)])
    for destination in range(1, n):
        sums = add(sums, collective_permute(total, [(0, destination)]))
    io.write("result", 0, sums)


def halved(io, p):
    """With a factor."""
    io.write("result", 0, scale(collective_permute(io.read("given", 0), [(0, 1), (1, 0)]), 1, 2))


def narrow(io, p):
    """In other bits on the wire."""
    x = cast(io.read("given", 0), "bfloat16")
    io.write("result", 0, cast(collective_permute(x, [(0, 1), (1, 0)]), p.dtype))


def nothing_for_rank_0(io, p):
    """Zeros where nobody sends."""
    io.write("result", 0, collective_permute(io.read("given", 0), [(0, 1)]))
'''
OF_KIND = {
    SUM: ("ring", "recursive_doubling", "star"),
    GATHER: ("gathering_by_doubling",),
    SCATTER_SUM: ("scattering_ring",),
    EXCHANGE: ("in_two_halves",),
}


def problem_of(kind: str, ranks: int, elements: int = 0) -> Problem:
    """One call; by default of a few elements, divisible as wanted."""
    size = elements or (3 if kind == GATHER else 4 * ranks)
    return catalog.build(case("captured", {"calls": [{"kind": kind, "elements": size}]}, ranks=ranks))


def traced(function: str, problem: Problem) -> Program:
    """A strategy of SOURCE at a Problem."""
    return trace_source(SOURCE, function, problem)


def of_permutes(problem: Problem) -> dict[str, Program]:
    """The known ways that can be written, and those of this test."""
    n = problem.ranks
    ways = {name: program for name, program in programs(problem).items() if is_of_permutes(program)}
    kind = problem.case.name.partition("-")[0]
    for name in OF_KIND[kind]:
        if not name.endswith("doubling") or n & (n - 1) == 0:
            ways[name] = traced(name, problem)
    return ways


def proofs_of(text: str, problem: Problem) -> list[Verdict]:
    """Of what a file says, read by the reader: one for each use."""
    reference = catalog.reference_program(problem)
    return [equivalence.prove(program(use, problem), reference) for use in msccl.read(text)]
