"""Facts: equal copies are really equal, and reads cover what is really read."""

import numpy as np
import pytest

from overlayccl_core.program import maps
from overlayccl_core.program.arithmetics import PRIME, Modular
from overlayccl_core.program.facts import equal_in_groups, reads, value_numbers
from overlayccl_core.program.groups import groups_of, world
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import make_collective, make_input, make_permute, make_view
from tests.random_programs import RANKS, drawn, random_program
from tests.small_problems import exchange, traced


def classes(numbers: np.ndarray) -> list[int]:
    return np.unique(numbers, return_inverse=True)[1].tolist()


def test_inputs_differ_unless_they_are_equal() -> None:
    assert len(set(value_numbers(make_input(("x",), equal=False, size=2), 4).tolist())) == 4
    assert len(set(value_numbers(make_input(("e",), equal=True, size=2), 4).tolist())) == 1


def test_a_fact_is_of_one_number_of_ranks() -> None:
    x = make_input(("x",), equal=False, size=2)
    assert (len(value_numbers(x, 4)), len(value_numbers(x, 8))) == (4, 8)


def test_sums_are_equal_within_groups_and_member_order_does_not_matter() -> None:
    x = make_input(("x",), equal=False, size=4)
    pairs = groups_of([(0, 2), (1, 3)], 4)
    assert classes(value_numbers(make_collective(Kind.ALL_REDUCE, x, pairs), 4)) == [0, 1, 0, 1]
    twice = make_collective(
        Kind.ALL_REDUCE, make_collective(Kind.ALL_REDUCE, x, pairs), groups_of([(0, 1), (3, 2)], 4)
    )
    assert equal_in_groups(twice, world(4))
    gathered = make_collective(Kind.ALL_GATHER, make_permute(x, [2, 3, 0, 1]), pairs)
    assert not equal_in_groups(gathered, world(4))


def test_rows_of_a_map_and_senders_tell_ranks_apart() -> None:
    e = make_input(("e",), equal=True, size=4)
    assert classes(value_numbers(make_view([e], maps.window([0, 2, 0, 2], 2)), 4)) == [0, 1, 0, 1]
    assert len(set(value_numbers(make_permute(e, [0, 1, -1, -1]), 4).tolist())) == 2


@pytest.mark.parametrize("seed", range(80))
def test_what_is_called_equal_is_equal(seed: int) -> None:
    program = random_program(seed)
    random = np.random.default_rng(seed)
    outputs = {("n", i): x for i, x in enumerate(program.nodes)}
    inputs = drawn(program.problem, outputs, draw=lambda shape: random.integers(0, PRIME, shape))
    held, _ = evaluate(outputs, inputs, Modular(), RANKS)
    for port, x in outputs.items():
        numbers, values = value_numbers(x, RANKS), held[port].on_all()
        for a in range(RANKS):
            for b in range(a):
                assert numbers[a] != numbers[b] or (values[a] == values[b]).all()


def test_reads_are_the_disjoint_stretches_of_each_rank() -> None:
    body = (
        'x = all_gather(io.read("x"))\n'
        'io.write("y", concat([slice_axis(x, 0, [0, 4, 8, 12], 3), slice_axis(x, 0, [2, 6, 10, 14], 2)]))'
    )
    program = traced(body, exchange(4, {"x": (4,)}, {"y": (5,)}))
    gathered = program.collectives[0]
    read = reads(program, gathered, program.users())
    assert read is not None
    rank, start, length = read
    np.testing.assert_array_equal(np.stack([rank, start, length]), [[0, 1, 2, 3], [0, 4, 8, 12], [4] * 4])


def test_reads_of_a_row_common_to_all_ranks_are_spread() -> None:
    body = 'x = all_gather(io.read("x"))\nio.write("y", slice_axis(x, 0, 3, 2))'
    program = traced(body, exchange(4, {"x": (4,)}, {"y": (2,)}))
    read = reads(program, program.collectives[0], program.users())
    assert read is not None
    np.testing.assert_array_equal(np.stack(read), [[0, 1, 2, 3], [3] * 4, [2] * 4])


def test_an_output_and_a_summed_value_may_be_read_whole() -> None:
    body = 'x = all_gather(io.read("x"))\nio.write("y", all_reduce(x))'
    program = traced(body, exchange(4, {"x": (4,)}, {"y": (16,)}))
    users = program.users()
    assert [reads(program, x, users) for x in program.collectives] == [None, None]
