"""Calls in flight while the model computes: what starts when, and who is waited for."""

from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import COLLECTIVES, Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import topological
from overlayccl_core.program.program import Issue, Program, Read, Write
from overlayccl_core.program.segments import IllegalOrder, walk
from overlayccl_core.rewrites.apply import DoesNotApply, apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.small_problems import exchange, layers, traced

SUM, SCATTER, GATHER = "all_reduce:world:1", "reduce_scatter:world:1", "all_gather:world:2"
PARTS_OF_A_LAYER = "for m in range(p.microbatches):\n    for l in range(p.layers):\n        {}"
EACH = PARTS_OF_A_LAYER.format('io.write("total", m, l, all_reduce(io.read("partial", m, l)))')


def way(name: str, base: str, entry: dict[str, Any]) -> Program:
    return replay(Recipe(base=base), catalog.build(case(name, entry)))


def flying(program: Program, knob: str) -> Program:
    """All its collectives with that many in flight."""
    for site_class in site_classes(program, COLLECTIVES):
        program = apply(program, ("in_flight", site_class, knob))
    walk(program)
    return program


def told(program: Program) -> str:
    """`i01 w01`: what is issued and written, by the indices of the ports; a call by those of its inputs."""
    words = []
    for event in program.events:
        match event:
            case Issue(call):
                inputs = [x for x in topological(call) if x.kind is Kind.INPUT]
                words.append("i" + "+".join("".join(map(str, x.port[1:])) for x in inputs))
            case Write(port, _):
                words.append("w" + "".join(map(str, port[1:])))
            case _:
                pass
    return " ".join(words)


@pytest.mark.parametrize(
    ("knob", "order"),
    [
        ("2", "i00 i10 w00 i01 w10 i11 w01 i20 w11 i30 w20 i21 w30 i31 w21 w31"),
        ("4", "i00 i10 i20 i30 w00 i01 w10 i11 w20 i21 w30 i31 w01 w11 w21 w31"),
    ],
)
def test_a_microbatch_computes_while_the_sums_of_others_are_in_flight(knob: str, order: str) -> None:
    assert told(flying(traced(EACH, layers(4, 4, 2, (3,))), knob)) == order


@pytest.mark.parametrize(
    ("knob", "order"), [("2", "i2 i1 w2 i0 w1 w0"), ("4", "i2 i1 i0 w2 w1 w0"), ("all", "i2 i1 i0 w2 w1 w0")]
)
def test_a_gradient_is_on_its_way_while_the_backward_goes_on(knob: str, order: str) -> None:
    new = flying(way("grad_ar", "one_by_one", {"sizes": [4, 2, 3], "overlap": True}), knob)
    assert told(new) == order
    assert [step.in_flight for step in lower(new) if step.action is Action.READ] == [0, 1, 1 + (knob != "2")]


def test_a_bucket_starts_when_its_last_gradient_is_there() -> None:
    program = way("grad_ar", "one_by_one", {"sizes": [4, 4, 4, 4], "overlap": True})
    assert told(flying(apply(program, ("merge", SUM, "1/2")), "2")) == "i3+2 i1+0 w2 w3 w0 w1"


def test_the_next_layers_are_gathered_while_a_layer_runs() -> None:
    program = way("fsdp_prefetch", "gathered_once", {"microbatches": 2, "layers": 4, "shape": [8, 3]})
    assert told(flying(program, "2")) == "i0 i1 w00 w10 i2 w01 w11 i3 w02 w12 w03 w13"


def test_the_gradients_of_shards_are_not_waited_for_before_the_next_layers() -> None:
    _, problem = catalog.directions(case("fsdp_prefetch", {"microbatches": 1, "layers": 3, "shape": [8, 3]}))
    assert told(flying(catalog.reference_program(problem), "2")) == "i02 i01 w2 i00 w1 w0"


@pytest.mark.parametrize("knob", ["2", "4", "all"])
def test_no_more_are_in_flight_than_the_label_says_and_so_many_if_there_are(knob: str) -> None:
    new = flying(traced(EACH, layers(4, 6, 2, (3,))), knob)
    most = 1 + max(step.in_flight for step in lower(new) if step.action is Action.START)
    assert most == {"2": 2, "4": 4, "all": 6}[knob]


def test_what_is_written_of_several_calls_waits_for_all_of_them() -> None:
    """Nothing can use the first alone, so nothing waits for it."""
    body = 'x = io.read("x")\nio.write("y", concat([all_reduce(part) for part in split(x, 3)]))'
    new = flying(traced(body, exchange(4, {"x": (6,)}, {"y": (6,)})), "2")
    assert [step.in_flight for step in lower(new) if step.action is Action.START] == [0, 1, 2]


def test_calls_of_another_class_are_waited_for_at_once() -> None:
    shares = apply(traced(EACH, layers(4, 3, 1, (4,))), ("reduce_scatter_all_gather", SUM, ""))
    new = apply(shares, ("in_flight", SCATTER, "2"))
    kinds = [x.kind for x in new.collectives]
    assert kinds == [Kind.REDUCE_SCATTER] * 2 + [Kind.ALL_GATHER, Kind.REDUCE_SCATTER] + [Kind.ALL_GATHER] * 2
    gathers = [
        step for step in lower(new) if step.action is Action.START if step.node.kind is Kind.ALL_GATHER
    ]
    assert [step.in_flight for step in gathers] == [1, 1, 0]
    assert told(new) == "i00 i10 i00 w00 i20 i10 w10 i20 w20"


def test_reads_are_late_and_writes_right_behind_what_they_wait_for() -> None:
    new = flying(traced(EACH, layers(4, 2, 2, (3,))), "2")
    for before, event in zip(new.events, new.events[1:], strict=False):
        assert not isinstance(before, Read) or isinstance(event, Issue)


def test_what_would_wait_for_itself_is_refused_as_in_every_order() -> None:
    body = """
for m in range(p.microbatches):
    parts = [all_reduce(io.read("partial", m, l)) for l in range(p.layers)]
    for l, part in enumerate(split(concat(parts), p.layers)):
        io.write("total", m, l, add(part, parts[-1]))
"""
    with pytest.raises((DoesNotApply, IllegalOrder), match="would wait for itself"):
        flying(traced(body, layers(4, 2, 2, (3,))), "2")
