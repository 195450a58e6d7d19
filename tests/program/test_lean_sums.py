"""A sum adds only where several of its blocks hold something: derived backwards are as lean as those by hand."""

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind, NotApplicable
from overlayccl_core.program.library import read_library
from overlayccl_core.program.nodes import Node, make_input, make_sum, make_view
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from tests.known_cases import SMALL, case

HALO = {"elements": 40, "edge": 3}
X = make_input(("x",), equal=False, size=6)


def summed(table: list[list[int]], count: int) -> Node:
    return make_sum(make_view([X], maps.from_table(table)), count)


def wasted(x: Node) -> int:
    """Elements that a sum adds and need not: those of slots that have one term at most on every rank, and of blocks
    beyond the most terms that any slot has."""
    (blocks,) = x.operands
    if blocks.kind is not Kind.VIEW:
        return 0
    terms = (blocks.map.table().reshape(blocks.map.rows, x.count, x.size) >= 0).sum(1).max(0)
    several = terms[terms > 1]
    return x.count * x.size - len(several) * int(several.max(initial=0))


def test_what_stands_alone_is_copied_and_the_rest_is_added() -> None:
    x = summed([[0, 1, 2, -1, -1, -1, 3, 4]], 2)
    assert (x.kind, x.size) == (Kind.VIEW, 4)
    (total,) = (y for y in x.operands if y.kind is Kind.SUM)
    assert (total.size, total.count) == (1, 2)
    assert total.operands[0].map.table().tolist() == [[2, 3]]
    assert [y.size for y in x.operands] == [6, 1]  # in order of use: what stands alone, the sum
    assert x.map.table().tolist() == [[0, 1, 6, 4]]


def test_blocks_beyond_the_most_terms_of_any_element_go() -> None:
    x = summed([[0, -1, 1, 2, -1, 3]], 3)  # two terms each, in three blocks
    assert (x.kind, x.count) == (Kind.SUM, 2)
    assert x.operands[0].map.table().tolist() == [[0, 2, 1, 3]]


def test_what_some_rank_adds_is_added_on_all() -> None:
    x = summed([[0, 1, 2, -1], [0, 1, -1, -1]], 2)
    (total,) = (y for y in x.operands if y.kind is Kind.SUM)
    assert (total.size, total.count) == (1, 2)


def test_a_sum_without_zeros_stays_as_it_is() -> None:
    x = summed([[0, 1, 2, 3]], 2)
    assert x.kind is Kind.SUM and wasted(x) == 0


@pytest.mark.parametrize("seed", range(40))
def test_a_narrowed_sum_is_the_sum(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, count, size = int(random.choice([1, 3])), int(random.integers(2, 5)), int(random.integers(1, 7))
    table = np.where(
        random.random((rows, count * size)) < 0.5, -1, random.integers(0, 6, (rows, count * size))
    )
    x = summed(table.tolist(), count)
    values = random.integers(1, 2**20, (3, 6))
    want = np.append(values, np.zeros((3, 1), int), 1)
    blocks = np.stack([want[r][table[r % rows]] for r in range(3)]).reshape(3, count, size)
    assert (evaluated(x, values) == blocks.sum(1)).all()


def evaluated(x: Node, values: np.ndarray) -> np.ndarray:
    """int[ranks, size]: the value of a node of the one input."""
    if x.kind is Kind.INPUT:
        return values
    below = [evaluated(y, values) for y in x.operands]
    if x.kind is Kind.SCALE:
        return below[0] * int(x.ratio)
    if x.kind is Kind.SUM:
        return below[0].reshape(3, x.count, x.size).sum(1)
    joined = np.concatenate([*below, np.zeros((3, 1), int)], 1)
    table = np.resize(x.map.table(), (3, x.size)) if x.map.rows == 1 else x.map.table()
    return np.stack([joined[r][table[r]] for r in range(3)])


def backwards(problem: str, **at: int) -> list[Program]:
    """The derived backwards of every known way."""
    small = case(problem, HALO if problem == "halo" else None, **at)  # type: ignore[arg-type]
    if not catalog.plug_in(problem).has_backward(small) or not catalog.build(small).linear:
        return []  # what is not linear has a backward of its own, not a transpose
    problem_ = catalog.backward(small)
    assert problem_ is not None
    found = []
    for name, _ in read_library(catalog.library_source(problem)).strategies:
        try:
            found.append(replay(Recipe(base=TransposeOf(recipe=Recipe(base=name))), problem_))
        except NotApplicable:
            continue
    return found


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize("problem", [*SMALL, "halo"])
def test_derived_backwards_add_nothing_that_stands_alone(problem: str) -> None:
    for program in backwards(problem, ranks=4, ranks_per_node=2):
        assert sum(wasted(x) for x in program.nodes if x.kind is Kind.SUM) == 0


@pytest.mark.usefixtures("plug_ins")
def test_the_backward_of_a_halo_adds_its_edges_alone() -> None:
    small = case("halo", HALO)
    reference = catalog.reference_program(catalog.in_direction(small, Direction.BACKWARD))
    for program in backwards("halo"):
        assert equivalence.prove(program, reference).passed
        assert sum(x.size for x in program.nodes if x.kind is Kind.SUM) <= 2 * 3
