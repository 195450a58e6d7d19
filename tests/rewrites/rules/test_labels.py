"""drop_boundary and early_issue: rules that turn labels and nothing else."""

from overlayccl_core import catalog
from overlayccl_core.program.kinds import IssueOrder
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.program import Boundary, Program
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from tests.known_cases import case
from tests.rewrites.rules.tried import payloads, refusal, rewritten, traced

SUM = "all_reduce:world:1"


def test_collectives_that_differ_in_their_graph_become_one() -> None:
    body = 'io.write("a", all_reduce(x))\nboundary()\nio.write("b", scale(all_reduce(x), 3))'
    program = traced(body, {"a": 12, "b": 12})
    assert len(program.collectives) == 2
    new = rewritten("drop_boundary", program)
    assert payloads(new) == [12]
    assert not any(isinstance(e, Boundary) for e in new.events)


def test_only_the_class_leaves_its_graph_and_other_labels_stay() -> None:
    body = 'boundary()\nio.write("a", all_reduce(x))\nio.write("b", all_gather(e))'
    program = rewritten("early_issue", traced(body, {"a": 12, "b": 48}), "", SUM)
    new = rewritten("drop_boundary", program, "", SUM)
    labels = {x.kind.value: x.label for x in new.collectives}
    assert labels["all_reduce"].graph == "" and labels["all_reduce"].issue is IssueOrder.EARLY
    assert labels["all_gather"].graph == "g1"


def test_every_kind_has_its_labels_turned() -> None:
    for call, size in (
        ("collective_permute(x, [(0, 1)])", 12),
        ("reduce_scatter(x)", 3),
        ("all_to_all(x)", 12),
    ):
        program = traced(f'boundary()\nio.write("y", {call})', size)
        (x,) = rewritten("drop_boundary", rewritten("early_issue", program)).collectives
        assert (x.label.graph, x.label.issue) == ("", IssueOrder.EARLY)


def test_where_ranks_compile_no_collective_is_early() -> None:
    """A graph has no order of calls."""
    compiled = catalog.reference_program(catalog.build(case("tp_mlp", uniform=True)))
    assert "order of calls" in refusal("early_issue", compiled)


def in_flight(program: Program) -> int:
    """The most collectives that are in flight at once."""
    return 1 + max(step.in_flight for step in lower(program) if step.action is Action.START)


def test_early_collectives_of_a_layer_are_in_flight_together() -> None:
    problem = catalog.build(case("tp_mlp", {"microbatches": 3, "layers": 2, "shape": [5]}))
    one_graph = apply(replay(Recipe(base="developer"), problem), ("drop_boundary", SUM, ""))
    early = rewritten("early_issue", one_graph)
    assert (in_flight(one_graph), in_flight(early)) == (1, 3)
    assert all(x.label.issue is IssueOrder.EARLY for x in early.collectives)


def test_nothing_to_turn_is_refused() -> None:
    program = traced('io.write("y", all_reduce(x))', 12)
    assert "side conditions" in refusal("drop_boundary", program)
    assert "side conditions" in refusal("early_issue", rewritten("early_issue", program))
    assert "no knob" in refusal("early_issue", program, "late")
