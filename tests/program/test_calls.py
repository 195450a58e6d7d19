"""Calls of several values: which collectives are one, that nothing loses them, and what cannot be one."""

from dataclasses import replace

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.calls import calls_of, make_call
from overlayccl_core.program.groups import world
from overlayccl_core.program.json_form import InvalidProgram, dumps, from_json, loads, to_json
from overlayccl_core.program.kinds import DType, Kind, Label, Reduction, Rejected
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.maps import Map
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.nodes import (
    Node,
    make_cast,
    make_collective,
    make_input,
    make_scale,
    make_view,
)
from overlayccl_core.program.program import Issue, Program, Read, Write
from overlayccl_core.program.schedule import schedule
from overlayccl_core.program.segments import Depths, IllegalOrder, walk
from overlayccl_core.program.text_form import text
from overlayccl_core.program.transpose import backward_problem, transpose
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.small_problems import exchange, layers, traced

TWO = exchange(4, {"a": (8,), "b": (4,)}, {"y": (8,), "z": (4,)})
LIST = 'y, z = all_reduce([io.read("a"), io.read("b")])\nio.write("y", y)\nio.write("z", z)'


def values(*sizes: int) -> list[Node]:
    return [make_input(("x", i), equal=False, size=n) for i, n in enumerate(sizes)]


def summed(operands: list[Node], **more) -> list[Node]:
    return make_call(Kind.ALL_REDUCE, operands, world(4), **more)


def test_a_list_is_one_call_and_every_value_a_node() -> None:
    program = traced(LIST, TWO)
    assert [[x.size for x in call] for call in program.calls] == [[8, 4]]
    assert [x.size for x in program.collectives] == [8, 4]
    assert [len(call) for call in traced(LIST.replace("[io", "(io").replace("])", "))"), TWO).calls] == [2]


def test_who_asks_in_which_order_makes_no_difference() -> None:
    x, y, z = values(8, 4, 2)
    assert {*summed([x, y, z])} == {*summed([z, x, y])}
    assert {*summed([x, y])}.isdisjoint(summed([x, z]))


@pytest.mark.parametrize("again", [lambda x: x, lambda x: make_scale(x, 3)])
def test_one_value_is_a_call_of_its_own(again) -> None:
    [x] = values(8)
    one, other = summed([x, again(x)])
    assert one is make_collective(Kind.ALL_REDUCE, x, world(4))
    assert other is again(one)


def test_what_shares_a_call_is_alike() -> None:
    x, y = values(8, 4)
    one, other = summed([x, y])
    label = one.label
    narrow = make_collective(Kind.ALL_REDUCE, make_cast(y, DType.BFLOAT16), world(4), label)
    largest = make_collective(Kind.ALL_REDUCE, y, world(4), label, Reduction.MAX)
    later = make_collective(Kind.ALL_REDUCE, y, world(4), replace(label, graph="g1"))
    assert [len(call) for call in calls_of([one, narrow, other, largest, later])] == [2, 1, 1, 1]


@pytest.mark.parametrize("kind", [Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL])
def test_other_kinds_have_a_call_of_their_own(kind: Kind) -> None:
    [x] = values(8)
    assert make_collective(kind, x, world(4), Label(call="0123456789ab")) is make_collective(
        kind, x, world(4)
    )


@pytest.mark.parametrize(
    ("list_of", "message"),
    [
        ('[io.read("a"), cast(io.read("b"), "bfloat16")]', "'bfloat16'.*: cast them"),
        ("[]", "of one dtype"),
        ("[3]", "'int' .*'dtype'"),
    ],
)
def test_what_is_no_list_of_one_dtype_is_refused(list_of: str, message: str) -> None:
    with pytest.raises(Rejected, match=message):
        traced(f"x = all_reduce({list_of})", TWO)


def test_a_value_that_needs_another_of_its_call_is_refused() -> None:
    problem, label = exchange(4, {"a": (8,)}, {"y": (8,)}), Label(call="0123456789ab")
    first = make_collective(Kind.ALL_REDUCE, problem.input_node(("a",)), world(4), label)
    turned = make_view([first], Map(1, 8, [0, 4], [4, 0]))
    second = make_collective(Kind.ALL_REDUCE, turned, world(4), label)
    with pytest.raises(Rejected, match=r"uses .*before .*issued"):
        Program(problem, [Read(("a",)), Issue((first, second)), Write(("y",), second)])
    with pytest.raises(IllegalOrder, match="a call would wait"):
        schedule(problem, {("y",): second})


def test_a_call_across_a_dependence_of_the_model_is_refused() -> None:
    problem = layers(2, 1, 2, (4,))
    outputs = {}
    operands = [problem.input_node(port) for port in problem.inputs]
    for port, total in zip(problem.outputs, make_call(Kind.ALL_REDUCE, operands, world(2)), strict=True):
        outputs[port] = total
    with pytest.raises(IllegalOrder, match="would wait for itself"):
        schedule(problem, outputs)


@pytest.mark.parametrize("issues", [[(0,), (1,)], [(0, 1), (0,)], [(0, 0, 1)], [()], [(0, 2)]])
def test_a_call_is_issued_once_and_as_one(issues: list[tuple[int, ...]]) -> None:
    program = traced(LIST, TWO)
    made = [
        *program.collectives,
        make_collective(Kind.ALL_REDUCE, program.collectives[0].operands[0], world(4)),
    ]
    events = [e for e in program.events if not isinstance(e, Issue)]
    events[2:2] = [Issue(tuple(made[i] for i in call)) for call in issues]
    with pytest.raises(Rejected, match=r"issued twice|be one call"):
        Program(TWO, events)


def test_what_is_never_issued_is_refused() -> None:
    program = traced(LIST, TWO)
    with pytest.raises(Rejected, match="before it is issued"):
        Program(TWO, [e for e in program.events if not isinstance(e, Issue)])


def test_json_keeps_calls_and_refuses_half_of_one() -> None:
    program = traced(LIST, TWO)
    again = loads(dumps(program))
    assert again.digest == program.digest and [len(call) for call in again.calls] == [2]
    alone = traced(LIST.replace("all_reduce([", "[all_reduce(x) for x in [").replace("])", "]]"), TWO)
    assert alone.value_digest != program.value_digest
    data = to_json(program)
    issue = next(e for e in data["events"] if e[0] == "issue")
    data["events"].insert(data["events"].index(issue), ["issue", issue.pop()])
    with pytest.raises(InvalidProgram, match="is issued twice"):
        from_json(data)


def test_the_transpose_keeps_calls() -> None:
    at = case("tp_mlp")
    problem = catalog.directions(at)[0]
    body = (
        "for layer in p.layer_order:\n"
        "    parts = [io.read('partial', m, layer) for m in range(p.microbatches)]\n"
        "    for m, total in enumerate(all_reduce(parts)):\n"
        "        io.write('total', m, layer, total)"
    )
    forward = traced(body.replace("p.layer_order", "range(p.layers)"), problem)
    back = transpose(forward, backward_problem(problem))
    assert {len(call) for call in forward.calls} == {len(call) for call in back.calls} == {at["microbatches"]}


def test_graphs_keep_calls_apart() -> None:
    problem = exchange(4, {"a": (8,), "b": (4,)}, {"y": (8,), "z": (4,), "v": (8,), "w": (4,)})
    body = f'{LIST}\nboundary()\nv, w = all_reduce([y, z])\nio.write("v", v)\nio.write("w", w)'
    program = traced(body, problem)
    assert [[x.label.graph for x in call] for call in program.calls] == [["", ""], ["g1", "g1"]]
    walk(schedule(problem, program.outputs))


def test_a_call_starts_once_and_is_waited_for_once() -> None:
    steps = lower(traced(LIST, TWO))
    assert [s.action.value for s in steps] == ["read", "read", "start", "wait", "write", "write"]
    start, wait = steps[2:4]
    assert [x.size for x in start.nodes] == [8, 4] == [x.size for x in wait.nodes]
    assert (start.in_flight, wait.in_flight, steps[4].in_flight) == (0, 1, 0)


def test_each_value_of_a_call_takes_over_what_only_it_needs() -> None:
    body = 'x = scale(io.read("a"), 2)\nu = add(x, x)\ny, z = all_reduce([add(u, io.read("b")), x], "max")'
    problem = exchange(4, {"a": (8,), "b": (8,)}, {"y": (8,), "z": (8,)}, linear=False)
    program = traced(f'{body}\nio.write("y", y)\nio.write("z", add(z, x))', problem)
    [start] = [s for s in lower(program) if s.action is Action.START]
    assert [x in start.in_place for x in start.nodes] == [True, False]
    assert (
        peak_bytes(program) == 3 * 32
    )  # x, which is still needed, its copy that is reduced, and the other sum


def test_there_is_no_buffer() -> None:
    problem = catalog.directions(case("grad_ar", {"sizes": [64, 32, 32]}))[0]
    written = sum(spec.size * spec.dtype.bytes for spec in problem.outputs.values())
    assert peak_bytes(replay(Recipe(base="coalesced"), problem)) == written


def test_the_text_says_what_is_one_call() -> None:
    said = text(traced(LIST, TWO))
    assert "1 collective," in said
    assert [line.strip() for line in said.splitlines() if "one call" in line] == ["v2, v3 are one call"]


def test_calls_have_the_depth_of_the_last_of_them() -> None:
    problem = exchange(4, {"a": (8,), "b": (8,)}, {"y": (8,), "z": (8,)})
    body = 'x = all_reduce(scale(io.read("a"), 1, 2))\ny, z = all_reduce([x, io.read("b")])'
    program = traced(f'{body}\nio.write("y", y)\nio.write("z", z)', problem)
    depths = Depths(problem, program.outputs)
    assert [depths.node(x) for x in program.collectives] == [1, 2, 2]
    again = schedule(problem, program.outputs)
    assert [len(call) for call in again.calls] == [1, 2]
