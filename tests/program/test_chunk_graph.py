"""Chunks: few permutes, each rank once a side, and no chunk that nobody asks for."""

import random
from collections import Counter

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.program.chunk_graph import added, coloured, given, laid, moved
from overlayccl_core.program.language import Value
from overlayccl_core.program.program import Program
from overlayccl_core.program.recorder import IO
from overlayccl_core.program.tracing import trace_function

RANKS, SIZE = 4, 5


def exchanged(wanted, kind: str = "all_to_all", parts: int = 1) -> Program:
    """The Program of an exchange whose results a function says: (rank, i, chunk of (rank, i)) -> chunk."""
    calls = [{"kind": kind, "elements": RANKS * SIZE}]
    case = catalog.case("captured", {"calls": calls}, ranks=RANKS, ranks_per_node=RANKS)

    def traced(io: IO, _p: object) -> None:
        x = io.read("given", 0)
        rows = [
            [wanted(r, i, lambda s, k: given(s, x.node, k * SIZE)) for i in range(RANKS)]
            for r in range(RANKS)
        ]
        node = laid(SIZE, rows)
        io.write("result", 0, Value(node, (node.size,)))

    return trace_function(traced, catalog.build(case))


@pytest.mark.parametrize("seed", range(20))
def test_edges_have_as_few_colours_as_the_busiest_rank_has_messages(seed: int) -> None:
    draw = random.Random(seed)
    ranks = draw.randint(2, 9)
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    edges = draw.sample(pairs, draw.randint(1, len(pairs)))
    classes = coloured(edges, ranks)
    assert sorted(e for c in classes for e in c) == sorted(edges)
    assert all(len({e[side] for e in c}) == len(c) for c in classes for side in (0, 1))
    assert len(classes) == max(max(Counter(e[side] for e in edges).values()) for side in (0, 1))


def test_an_exchange_is_its_rotations() -> None:
    made = exchanged(lambda r, i, chunk: moved(chunk(i, r), r))
    assert [x.sources for x in made.collectives] == [
        tuple((r - d) % RANKS for r in range(RANKS)) for d in (1, 2, 3)
    ]
    assert catalog.reference_program(made.problem).outputs.keys() == made.outputs.keys()


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_of_a_message_are_calls_of_their_own(parts: int) -> None:
    made = exchanged(lambda r, i, chunk: moved(chunk(i, r), r, parts))
    assert len(made.collectives) == 3 * min(parts, SIZE)
    assert sum(x.size for x in made.collectives) == 3 * SIZE
    assert np.isfinite(made.nodes[0].size)


def test_what_nobody_asks_for_is_not_sent() -> None:
    def wanted(r, i, chunk):
        moved(chunk(0, 0), 3)
        return chunk(r, i)

    assert not exchanged(wanted).collectives


def test_sums_of_one_level_are_one_sum() -> None:
    def wanted(r, i, chunk):
        here = chunk(r, i)
        for d in range(1, RANKS):
            here = added([here, moved(chunk((r + d) % RANKS, i), r)])
        return here

    made = exchanged(wanted, "all_reduce_sum")
    sums = [x for x in made.nodes if x.kind.value == "sum"]
    assert [x.count for x in sums] == [RANKS]
    assert len(made.collectives) == RANKS - 1


@pytest.mark.parametrize("turned", [False, True])
def test_a_sum_is_rounded_as_its_parts_are(turned: bool) -> None:
    """Sums of two that begin with another are one sum; one that ends with another is not: a + (b + c)."""

    def wanted(r, i, chunk):
        if i:
            return chunk(r, i)
        inner = added([chunk(r, 0), chunk(r, 1), moved(chunk((r + 1) % RANKS, 0), r)])
        rest = [chunk(r, 2), chunk(r, 3)]
        return added([rest[0], inner, rest[1]] if turned else [inner, *rest])

    made = exchanged(wanted, "all_reduce_sum")
    assert {x.count for x in made.nodes if x.kind.value == "sum"} == ({3} if turned else {5})


def test_ranks_where_terms_come_at_other_times_add_in_one_order() -> None:
    """Each rank adds rank 0's, rank 1's and so on, one to the other; what of these came last differs."""

    def wanted(r, i, chunk):
        came = {}
        for source in range(RANKS):
            moving = chunk(source, i)
            for hop in range((r - source) % RANKS):
                moving = moved(moving, (source + hop + 1) % RANKS)
            came[source] = moving
        total = came[0]
        for source in range(1, RANKS):
            total = added([came[source], total] if source % 2 else [total, came[source]])
        return total

    made = exchanged(wanted, "all_reduce_sum")
    assert equivalence.prove(made, catalog.reference_program(made.problem)).passed
