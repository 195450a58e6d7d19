"""Joining collectives in buckets, and what must never be joined."""

from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import joining
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rules import merge
from tests.known_cases import case
from tests.rewrites.rules.tried import PAIRS, payloads, refusal, rewritten, traced

RULE = "merge"
SUM = "all_reduce:world:1"
PARTS = {"a": "slice_axis(x, 0, 0, 4)", "b": "slice_axis(x, 0, 2, 8)", "c": "slice_axis(e, 0, 1, 4)"}


@pytest.mark.parametrize(
    ("word", "sizes", "more"),
    [
        ("all_reduce", (4, 8, 4), ""),
        ("all_reduce", (4, 8, 4), ', "max"'),
        ("all_reduce", (4, 8, 4), f', "sum", {PAIRS}'),
        ("all_gather", (16, 32, 16), ""),
        ("all_gather", (8, 16, 8), f", 0, {PAIRS}"),
        ("reduce_scatter", (1, 2, 1), ""),
        ("all_to_all", (4, 8, 4), ""),
        ("all_to_all", (4, 8, 4), ", 0, ((3, 0, 2, 1),)"),
        ("collective_permute", (4, 8, 4), ", [(0, 2), (2, 1), (3, 3)]"),
    ],
)
def test_every_kind_is_joined_and_gives_what_it_gave(word: str, sizes: tuple[int, ...], more: str) -> None:
    body = "\n".join(f'io.write("{name}", {word}({part}{more}))' for name, part in PARTS.items())
    outputs = dict(zip("abc", sizes, strict=True))
    program = traced(body, outputs, linear="max" not in more)
    assert payloads(rewritten(RULE, program, "all")) == [16]


def developer(problem: str, entry: Mapping[str, Any]) -> Program:
    """A collective for each value, of no graph."""
    plainest = "one_by_one" if problem == "grad_ar" else "developer"
    program = replay(Recipe(base=plainest), catalog.build(case(problem, entry)))
    return apply(program, ("drop_boundary", SUM, "")) if problem == "tp_mlp" else program


def gradients(*sizes: int, overlap: bool = False) -> Program:
    return developer("grad_ar", {"sizes": list(sizes), "overlap": overlap})


@pytest.mark.parametrize(
    ("knob", "buckets"),
    [("all", [16]), ("1/2", [8, 8]), ("1/3", [5, 4, 5, 2]), ("1/4", [5, 4, 5, 2]), ("1/5", [5, 3, 1, 5, 2])],
)
def test_buckets_are_filled_in_order_up_to_their_share(knob: str, buckets: list[int]) -> None:
    program = gradients(5, 3, 1, 5, 2)
    if len(buckets) == 5:
        assert "side conditions" in refusal(RULE, program, knob)
    else:
        assert payloads(rewritten(RULE, program, knob)) == buckets


def test_overlapped_gradients_are_joined_as_they_come() -> None:
    program = gradients(5, 3, 1, 5, 2, overlap=True)
    assert payloads(rewritten(RULE, program, "1/2")) == [8, 8]  # 2 5 1 | 3 5
    ports = [sorted(_inputs(x)) for x in rewritten(RULE, program, "1/2").collectives]
    assert ports == [[2, 3, 4], [0, 1]]


def _inputs(x: Node) -> list[Any]:
    return [x.port[1]] if not x.operands else [port for y in x.operands for port in _inputs(y)]


def test_a_cap_in_mib_counts_bytes_of_operands() -> None:
    mib = MIB // 4
    program = gradients(20 * mib, 5 * mib, 1, 24 * mib, 40 * mib)
    assert payloads(apply(program, (RULE, SUM, "25MiB"))) == [25 * mib, 24 * mib + 1, 40 * mib]


@pytest.mark.parametrize("knob", ["", "half", "1/0", "0MiB", "25", "-1MiB"])
def test_a_knob_that_is_none_is_refused(knob: str) -> None:
    assert "25MiB" in refusal(RULE, gradients(5, 3), knob)


def test_knobs_are_those_that_give_different_buckets() -> None:
    program = gradients(5, 3, 1, 5, 2)
    assert merge.knobs(program, program.collectives) == ("all", "1/2", "1/3")
    assert merge.knobs(gradients(7), gradients(7).collectives) == ()


def test_layers_stay_apart_although_they_are_one_class() -> None:
    program = developer("tp_mlp", {"microbatches": 4, "layers": 3, "shape": [5]})
    assert payloads(rewritten(RULE, program, "all")) == [20] * 3
    assert payloads(rewritten(RULE, program, "1/2")) == [10, 10] * 3


@pytest.mark.parametrize(
    "body",
    [
        'io.write("a", all_reduce(x))\nio.write("b", all_reduce(e, "max"))',  # reductions
        f'io.write("a", all_reduce(x))\nio.write("b", all_reduce(e, "sum", {PAIRS}))',  # groups
        'io.write("a", all_reduce(x))\nio.write("b", all_gather(slice_axis(e, 0, 0, 3)))',  # kinds
        'io.write("a", all_reduce(x))\nboundary()\nio.write("b", all_reduce(e))',  # graphs
        # dtypes
        'io.write("a", all_reduce(x))\nio.write("b", cast(all_reduce(cast(e, "float64")), "float32"))',
        'a = all_reduce(x)\nio.write("a", a)\nio.write("b", all_reduce(add(a, e)))',  # one waits for the other
        # partners
        'io.write("a", collective_permute(x, [(0, 1)]))\nio.write("b", collective_permute(e, [(1, 0)]))',
    ],
)
def test_collectives_that_are_not_alike_stay_apart(body: str) -> None:
    program = traced(body, {"a": 12, "b": 12}, linear="max" not in body)
    for site_class in site_classes(program, merge.KINDS):
        assert "side conditions" in refusal(RULE, program, "all", site_class)


def test_buckets_do_not_depend_on_the_order_of_issue() -> None:
    lines = [f'io.write("{name}", all_reduce({part}))' for name, part in PARTS.items()]
    lines.append('io.write("d", all_reduce(slice_axis(e, 0, 5, 3)))')
    sizes = dict(zip("abcd", (4, 8, 4, 3), strict=True))
    one, other = traced("\n".join(lines), sizes), traced("\n".join(reversed(lines)), sizes)
    assert one.digest != other.digest
    assert rewritten(RULE, one, "1/2").value_digest == rewritten(RULE, other, "1/2").value_digest


PROBLEMS: dict[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 2, "layers": 3, "shape": [5]},
    "tp_mlp entry": {"microbatches": 2, "layers": 3, "shape": [5], "site": "entry"},
    "grad_ar": {"sizes": [4, 9, 2]},
    "grad_ar overlap": {"sizes": [4, 9, 2], "overlap": True},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_merged_is_legal_and_proven(name: str) -> None:
    program = developer(name.split()[0], PROBLEMS[name])
    new = apply(program, (RULE, SUM, "all"))
    assert legality.check(new).outcome is Outcome.PASS
    assert prove(new, catalog.reference_program(program.problem)).outcome is Outcome.PASS


def test_a_merge_that_looks_at_the_graph_alone_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class GraphDepths(joining.Depths):
        def node(self, root: Node) -> int:
            return root.depth

    program = developer("tp_mlp", PROBLEMS["tp_mlp"])
    monkeypatch.setattr(joining, "Depths", GraphDepths)
    assert "would wait for itself" in refusal(RULE, program, "all")


def test_exchanges_of_an_exchange_problem_wait_for_each_other() -> None:
    program = replay(
        Recipe(base="two_step_hierarchical"), catalog.build(case("uniform_a2a", ranks_per_node=2))
    )
    for site_class in ("all_to_all:node:1", "all_to_all:across:2"):
        assert "side conditions" in refusal(RULE, program, "all", site_class)
