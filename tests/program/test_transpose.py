"""The transpose: the adjoint identity, what placements demand at both ends, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from overlayccl_core.gates.equivalence import prove
from overlayccl_core.program.arithmetics import PRIME, Modular
from overlayccl_core.program.kinds import Kind, Placement, Rejected
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.segments import walk
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.transpose import backward_problem, cotangent_port, transpose
from tests.random_programs import RANKS, random_program
from tests.small_problems import exchange, layers, traced


def backward(program: Program) -> Program:
    return transpose(program, backward_problem(program.problem))


def inner_product(got: dict, data: dict) -> int:
    return sum(
        int(a) * int(b)
        for port, held in got.items()
        for a, b in zip(held.on_all().ravel(), data[port].ravel(), strict=True)
    )


@pytest.mark.parametrize("seed", range(60))
def test_adjoint_identity(seed: int) -> None:
    """<A x, c> = <x, A^T c>, exactly, over all ranks, where no port is replicated."""
    program = random_program(seed, equal=False)
    turned = backward(program)
    random = np.random.default_rng(seed)
    problem = program.problem
    x = {p: random.integers(0, PRIME, (RANKS, s.size)) for p, s in problem.inputs.items()}
    c = {cotangent_port(p): random.integers(0, PRIME, (RANKS, s.size)) for p, s in problem.outputs.items()}
    y, _ = evaluate(program.outputs, x, Modular(), RANKS)
    dx, _ = evaluate(turned.outputs, c, Modular(), RANKS)
    left = inner_product({cotangent_port(p): held for p, held in y.items()}, c)
    right = inner_product(dx, {cotangent_port(p): data for p, data in x.items()})
    assert (left - right) % PRIME == 0


def placed(
    problem: Problem, source: tuple[str, str], result: tuple[str, str], **valid: tuple[int, ...]
) -> Problem:
    """The problem with (placement, cotangent) of its inputs and outputs, and what of them is valid."""
    ends = {"inputs": source, "outputs": result}
    changes = {
        name: {
            p: replace(s, placement=Placement(ours), cotangent=Placement(theirs), valid=valid.get(name))
            for p, s in getattr(problem, name).items()
        }
        for name, (ours, theirs) in ends.items()
    }
    return replace(problem, **changes)


SUM = 'io.write("y", all_reduce(io.read("x")))'


def test_the_exit_of_a_block_needs_no_communication() -> None:
    """Partial sums in, replicated total out: 1/N at the entry cancels the sum of N equal cotangents."""
    problem = placed(
        exchange(4, {"x": (8,)}, {"y": (8,)}), ("partial", "replicate"), ("replicate", "replicate")
    )
    turned = backward(traced(SUM, problem))
    assert [x.kind for x in turned.collectives] == [Kind.ALL_REDUCE]
    assert simplify(turned).collectives == []
    assert simplify(turned).outputs[("d_x",)].kind is Kind.INPUT


def test_the_entry_of_a_block_sums_over_ranks() -> None:
    """A replicated input whose cotangents are partial sums elsewhere: all_reduce at the exit."""
    problem = placed(
        exchange(4, {"x": (8,)}, {"y": (8,)}), ("replicate", "replicate"), ("replicate", "partial")
    )
    turned = backward(traced('io.write("y", io.read("x"))', problem))
    assert turned.outputs[("d_x",)].kind is Kind.ALL_REDUCE


def test_gathered_shards_become_a_reduce_scatter() -> None:
    problem = placed(exchange(4, {"x": (2,)}, {"y": (8,)}), ("varying", "varying"), ("replicate", "partial"))
    turned = simplify(backward(traced('io.write("y", all_gather(io.read("x")))', problem)))
    assert [x.kind for x in turned.collectives] == [Kind.REDUCE_SCATTER]


def test_what_is_not_valid_sends_no_gradient() -> None:
    problem = placed(
        exchange(4, {"x": (2,)}, {"y": (2,)}),
        ("varying", "varying"),
        ("varying", "varying"),
        inputs=(2, 1, 0, 0),
        outputs=(0, 0, 2, 2),
    )
    body = 'io.write("y", all_reduce(io.read("x"), "sum", [[0, 2], [1, 3]]))'
    turned = backward(traced(body, problem))
    assert turned.problem.inputs[("d_y",)].valid == (0, 0, 2, 2)
    c = {("d_y",): np.arange(8).reshape(4, 2) + 1}
    dx, _ = evaluate(turned.outputs, c, Modular(), 4)
    np.testing.assert_array_equal(dx[("d_x",)].on_all(), [[5, 6], [7, 0], [0, 0], [0, 0]])


def test_an_input_that_nobody_reads_has_a_gradient_of_zeros() -> None:
    problem = exchange(4, {"x": (2,), "z": (3,)}, {"y": (2,)})
    turned = backward(traced(SUM, problem))
    dz, _ = evaluate(turned.outputs, {("d_y",): np.ones((4, 2), np.int64)}, Modular(), 4)
    np.testing.assert_array_equal(dz[("d_z",)].on_all(), np.zeros((4, 3)))


def test_segments_turn_round_and_the_result_can_be_walked() -> None:
    forward = layers(4, 2, 3, (2, 2))
    turned = backward_problem(forward)
    assert turned.direction is Direction.BACKWARD
    giver = turned.giver(("d_total", 0, 1))
    assert giver is not None
    assert (giver.name, giver.needs) == (("d_block", 0, 2), (("d_partial", 0, 2),))
    body = """
for m in range(p.microbatches):
    for layer in range(p.layers):
        io.write("total", m, layer, all_reduce(io.read("partial", m, layer)))
    boundary()
"""
    walk(transpose(traced(body, forward), turned))


def test_a_backward_and_a_problem_that_is_not_linear_are_refused() -> None:
    problem = exchange(4, {"x": (8,)}, {"y": (8,)})
    with pytest.raises(ValueError, match="is a backward"):
        backward_problem(backward_problem(problem))
    with pytest.raises(ValueError, match="is not linear"):
        backward_problem(exchange(4, {"x": (8,)}, {"y": (8,)}, linear=False))


def test_a_maximum_has_no_transpose() -> None:
    program = traced('io.write("y", all_reduce(io.read("x"), "max"))', exchange(4, {"x": (8,)}, {"y": (8,)}))
    with pytest.raises(Rejected, match="not linear"):
        backward(program)


@pytest.mark.parametrize("seed", range(40))
def test_simplification_keeps_the_backward_what_it_is(seed: int) -> None:
    turned = backward(random_program(seed))
    smaller = simplify(turned)
    assert prove(smaller, turned).passed
    assert len(smaller.collectives) <= len(turned.collectives)
