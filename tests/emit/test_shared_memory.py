"""Whose memory outputs have: told from the Program, and held against the addresses of what emitted code gives."""

from types import ModuleType

import pytest
import torch

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.emit.shared_memory import shared_outputs
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from overlayccl_core.training.inspection import make_quiet
from tests.emit.deployed_modules import WORDS, library_way
from tests.random_programs import RANKS, random_program
from tests.small_problems import exchange, strategy


class World:
    """A process group that nobody asks for anything."""


WORLD = World()


def traced(body: str, problem: Problem) -> Program:
    """A strategy with this body."""
    return trace_source(strategy(body, f"{WORDS}, slice_axis"), "tried", problem)


def addresses(program: Program, rank: int) -> dict[str, dict[Port, tuple[int, int]]]:
    """reads and writes: port -> (first byte, byte behind the last) of what a rank's emitted code handles."""
    module = ModuleType("emitted")
    exec(compile(emit(program), "emitted", "exec"), module.__dict__)
    module.this_rank = lambda: rank
    module._check_ranks = lambda _group, _wanted: None
    module.connect((tuple(range(program.problem.ranks)),), lambda _ranks: WORLD)
    make_quiet(module)
    held: list[torch.Tensor] = []  # so that no address is given twice
    seen: dict[str, dict[Port, tuple[int, int]]] = {"reads": {}, "writes": {}}

    def note(kind: str, port: Port, x: torch.Tensor) -> torch.Tensor:
        held.append(x)
        seen[kind][port] = (x.data_ptr(), x.data_ptr() + x.nbytes)
        return x

    steps = module.forward()
    event = next(steps)
    try:
        while True:
            if isinstance(event, module.Read):
                size = program.problem.inputs[event.port].size
                event = steps.send(note("reads", event.port, torch.randn(size)))
            else:
                note("writes", event.port, event.value)
                event = next(steps)
    except StopIteration:
        return seen


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def check(program: Program) -> dict[Port, Port | None]:
    """What is told of a Program is so on every rank."""
    shared = shared_outputs(program)
    for rank in range(program.problem.ranks):
        seen = addresses(program, rank)
        own = {port: at for port, at in seen["writes"].items() if port not in shared}
        others = [*seen["reads"].values(), *own.values()]
        for at in own.values():
            assert sum(overlap(at, other) for other in others) == 1, (program, own)
        for port, of in shared.items():
            assert of is None or seen["writes"][port] == seen["reads"][of]
    return shared


def test_what_random_programs_give() -> None:
    found = [of for number in range(60) for of in check(random_program(number)).values()]
    assert None in found and any(found)  # both occur, so both were checked


@pytest.mark.parametrize("site", ["exit", "entry"])
def test_what_known_strategies_give(site: str) -> None:
    fields = {"microbatches": 2, "layers": 2, "shape": [1, 2, 6], "site": site}
    case = catalog.case("tp_mlp", fields, ranks=RANKS, ranks_per_node=RANKS)
    for name in ("developer", "merged_over_microbatches", "all_to_all_of_copies", "all_to_all_sum"):
        program = library_way(case, name)
        assert check(program) == {}, name
        if (problem := catalog.backward(case)) is not None:
            identity = shared_outputs(simplify(transpose(program, problem)))
            assert identity == {("d_partial", *i): ("d_total", *i) for i in ((0, 0), (0, 1), (1, 0), (1, 1))}


def test_parts_of_a_value_are_their_own_where_no_two_overlap() -> None:
    problem = exchange(4, {"x": (8,)}, {"a": (4,), "b": (4,), "c": (4,), "d": (2,)})
    body = """
y = all_reduce(io.read("x"))
io.write("a", slice_axis(y, 0, 0, 4))
io.write("b", slice_axis(y, 0, 4, 4))
io.write("c", slice_axis(y, 0, 2, 4))
io.write("d", slice_axis(y, 0, [0, 2, 4, 6], 2))
"""
    assert check(traced(body, problem)) == {("c",): None, ("d",): None}


def test_parts_that_overlap_on_one_rank_alone_are_not_apart() -> None:
    problem = exchange(4, {"x": (8,)}, {"a": (2,), "b": (2,)})
    body = """
y = all_reduce(io.read("x"))
io.write("a", slice_axis(y, 0, 6, 2))
io.write("b", slice_axis(y, 0, [0, 2, 4, {}], 2))
"""
    assert check(traced(body.format(4), problem)) == {}
    assert list(check(traced(body.format(5), problem)).values()) == [None]


def test_of_a_value_that_is_written_twice_one_output_is_its_own() -> None:
    problem = exchange(4, {"x": (8,)}, {"a": (8,), "b": (8,)})
    body = 'y = all_reduce(io.read("x"))\nio.write("a", y)\nio.write("b", y)'
    assert check(traced(body, problem)) == {("b",): None}


def test_an_input_and_a_part_of_one_are_told_apart() -> None:
    problem = exchange(4, {"x": (8,)}, {"a": (8,), "b": (4,)})
    body = 'x = io.read("x")\nio.write("a", x)\nio.write("b", slice_axis(x, 0, 4, 4))'
    assert check(traced(body, problem)) == {("a",): ("x",), ("b",): None}
