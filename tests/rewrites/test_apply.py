"""One step at a time: what it gives, what it refuses and how it says so."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.library import read_library
from overlayccl_core.program.maps import concatenated, window
from overlayccl_core.program.nodes import Node, make_collective, make_view, rebuild
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from overlayccl_core.rewrites import rule as rules
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, rule_names, steps_at
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import RuleNumerics
from tests.known_cases import case

SUM = "all_reduce:world:1"
README = Path(rules.__file__).with_name("README.md")


def developer(problem: str = "tp_mlp", **at: int) -> Program:
    base = read_library(catalog.library_source(problem)).developers[0]
    return replay(Recipe(base=base), catalog.build(case(problem, **at)))  # type: ignore[arg-type]


def refusal(program: Program, step: Step) -> str:
    with pytest.raises(DoesNotApply) as error:
        apply(program, step)
    return str(error.value)


def test_the_result_is_scheduled_and_legal() -> None:
    new = apply(developer(), ("drop_boundary", SUM, ""))
    assert new.digest == schedule(new.problem, new.outputs).digest
    assert legality.check(new).passed


def test_a_class_that_is_not_there_is_named_with_those_that_are() -> None:
    message = refusal(developer(), ("merge", "all_gather:node:2", "1/4"))
    parts = ("merge at all_gather:node:2", "with 1/4", "no such collectives", "there is all_reduce:world:1")
    assert all(part in message for part in parts)
    assert "there is no all_gather" in refusal(developer(), ("exchange_of_copies", SUM, ""))


def test_a_rule_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"no 'merg'.*'merge'"):
        apply(developer(), ("merg", SUM, "all"))


def test_a_knob_that_a_rule_does_not_have_is_refused() -> None:
    assert "no knob" in refusal(developer(), ("drop_boundary", SUM, "all"))


def planted(monkeypatch: pytest.MonkeyPatch, rewrite: object) -> None:
    made = SimpleNamespace(
        KINDS=(Kind.ALL_REDUCE,), NUMERICS=RuleNumerics.SAME, knobs=rules.no_knobs, rewrite=rewrite
    )
    monkeypatch.setattr(rules, "rule", lambda name: made)


def test_a_rule_that_changes_nothing_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(program: Program, sites: Sequence[Node], knob: str) -> rules.Replacements:
        return {x: lambda go, x=x: rebuild(x, [go(y) for y in x.operands]) for x in sites}

    planted(monkeypatch, same)
    assert refusal(developer(), ("same", SUM, "")) == f"rule same at {SUM}: nothing would change"
    planted(monkeypatch, lambda program, sites, knob: {})
    assert "side conditions" in refusal(developer(), ("none", SUM, ""))


def test_a_result_that_is_no_program_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    def ragged(program: Program, sites: Sequence[Node], knob: str) -> rules.Replacements:
        return each_by(lambda x, y: make_collective(Kind.REDUCE_SCATTER, y, x.groups), sites)

    planted(monkeypatch, ragged)
    assert "must divide over 4 ranks" in refusal(developer(), ("ragged", SUM, ""))


def test_a_result_that_waits_for_itself_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    def over_layers(program: Program, sites: Sequence[Node], knob: str) -> rules.Replacements:
        first, *_ = sites
        packed = make_view([x.operands[0] for x in sites], concatenated(tuple((x.size,) for x in sites), 0))
        whole = rebuild(first, [packed])
        return {
            x: lambda go, i=i, x=x: make_view([whole], window(i * x.size, x.size))
            for i, x in enumerate(sites)
        }

    planted(monkeypatch, over_layers)
    message = refusal(developer(), ("over_layers", SUM, ""))
    assert "block[" in message and "would wait for itself" in message


def each_by(build: object, sites: Sequence[Node]) -> Mapping[Node, object]:
    return rules.each(sites, build)  # type: ignore[arg-type]


def test_every_rule_has_a_pattern_and_a_row_in_the_readme_with_its_numerics() -> None:
    rows = README.read_text().splitlines()
    for name in rule_names():
        rule = rules.rule(name)
        assert rule.KINDS and "->" in (rule.__doc__ or "").strip().splitlines()[0], name
        (row,) = [row for row in rows if row.startswith(f"| `{name}` |")]
        assert row.endswith(f" | {rule.NUMERICS.value} |"), row


@pytest.mark.parametrize("problem", ["tp_mlp", "uniform_a2a", "grad_ar"])
def test_steps_are_the_same_each_time_and_each_applies_or_says_why_not(problem: str) -> None:
    program = developer(problem, ranks_per_node=2)
    steps = list(steps_at(program))
    assert steps == list(steps_at(program)) and len(steps) == len(set(steps))
    applied = 0
    for step in steps:
        try:
            one, two = apply(program, step), apply(program, step)
        except DoesNotApply as error:
            assert step[0] in str(error) and step[1] in str(error)
        else:
            applied += 1
            assert one.digest == two.digest and legality.check(one).passed
    assert applied


def test_steps_of_chosen_rules_only() -> None:
    assert list(steps_at(developer(), ("drop_boundary", "wire_dtype"))) == [
        ("drop_boundary", SUM, ""),
        ("wire_dtype", SUM, "bfloat16"),
    ]


def test_the_usual_rules_are_quick_at_224_ranks() -> None:
    shape = {"microbatches": 16, "layers": 16, "shape": [1, 64, 64]}
    program = replay(
        Recipe(base="developer"), catalog.build(case("tp_mlp", shape, ranks=224, ranks_per_node=32))
    )
    program = apply(program, ("drop_boundary", SUM, ""))
    for step in (
        ("merge", SUM, "all"),
        ("merge", SUM, "1/2"),
        ("early_issue", SUM, ""),
        ("reduce_scatter_all_gather", SUM, ""),
        ("gather_and_sum", SUM, ""),
        ("split", SUM, "2"),
        ("two_tiers", SUM, "scatter"),
    ):
        assert min(_seconds(program, step) for _ in range(3)) < 0.5, step  # 0.03 s on a quiet machine


def _seconds(program: Program, step: Step) -> float:
    begin = time.process_time()
    apply(program, step)
    return time.process_time() - begin
