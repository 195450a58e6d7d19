"""Choices of another tree, planted, at 2, 4 and 8 ranks: replayed, proven, priced, or at which step not and why."""

from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import loads
from overlayccl_core.rewrites.recipe import Recipe, source_base
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.stages import cases, known_ways, redeployed
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.redeploy import REDEPLOYED, SOURCE_CHOICES, Replayed
from overlayccl_core.tables.rows import frame_of
from tests.stages.flow import ROOT, quiet

Row = dict[str, Any]
ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 2, "layers": 2, "shape": [1, 16, 16]},
    "uniform_a2a": {"payload": "64KiB"},
    "alltoallv": {"pattern": "random", "rows": 64, "width": 256},
    "ring_kv": {"heads": 4, "sequence": 256, "head_dim": 32},
}
EARLY = ("early_issue", "collective_permute:other:2", "")


def case_at(deployment: str, problem: str) -> Case:
    return case_of(problem, ENTRIES[problem], load(ROOT / f"config/deployments/{deployment}.yaml"))


def planted(problem: str, recipe: Recipe, source: str | None = None) -> Row:
    """A choice at four ranks, forward."""
    here = {"tree": "local", "direction": "forward", "candidate": "x", "source": source}
    return here | cases.row(case_at("local", problem)) | {"recipe": recipe.dumps()}


def became(deployment: str, problem: str, *choices: Row) -> tuple[Row, list[Row]]:
    """The first tree's forward row of `redeployed`, and the rows of `candidates`, each column priced at 1."""
    case = case_at(deployment, problem)
    listed = frame_of([cases.row(case)], CASES.schema, "cases")
    rows = [row for one in catalog.directions(case) for row in known_ways.known_way_rows(one, None, None)]
    programs = (loads(row["program_json"]) for row in rows if row["program_json"])
    columns = {column for program in programs for column in features(program)}
    said = {"value": 1.0, "low": 1.0, "high": 1.0, "status": FitStatus.FITTED, "programs": 1}
    theta = Theta(tuple(Coefficient(column=one, **said) for one in columns), 0.9, 1.1, "planted")  # type: ignore[arg-type]
    facts = DeploymentFacts(theta=theta, capabilities=None, memory_budget_bytes=None)
    ways = frame_of(rows, KNOWN_WAYS.schema, "known_ways")
    frame = frame_of(choices, SOURCE_CHOICES.schema, "source_choices")
    made = redeployed.run(frame, listed, ways, facts, progress=quiet)
    frame_of(made["redeployed"], REDEPLOYED.schema, "redeployed")
    return made["redeployed"][0], made["candidates"]


@pytest.mark.parametrize("deployment", ["local-2", "local", "local-8"])
@pytest.mark.parametrize(
    ("problem", "way", "step"),
    [
        ("tp_mlp", "merged_over_microbatches", ("split", "all_reduce:world:1", "8")),
        ("uniform_a2a", "permute_ring", None),
        ("alltoallv", "permute_ring", None),  # its payload is rounded to the ranks
    ],
)
def test_a_recipe_replays_at_any_number_of_ranks_is_proven_and_priced(
    deployment: str, problem: str, way: str, step: tuple[str, str, str] | None
) -> None:
    recipe = Recipe(base=way, steps=() if step is None else (step,))
    row, candidates = became(deployment, problem, planted(problem, recipe))
    assert row["outcome"] == Replayed.PROVEN and row["message"] == "", row
    assert (
        row["source_case"] == case_at("local", problem).id and row["case"] == case_at(deployment, problem).id
    )
    assert row["predicted_us"] > 0
    [mine] = [one for one in candidates if one["direction"] == "forward"]
    assert (mine["program"], mine["equivalence"]) == (row["program"], "pass")
    assert mine["candidate"].startswith("found-") is (step is not None)


def test_a_recipe_that_does_not_replay_says_at_which_step_and_why() -> None:
    recipe = Recipe(base="permute_ring", steps=(EARLY,))
    assert became("local", "ring_kv", planted("ring_kv", recipe))[0]["outcome"] == Replayed.PROVEN
    row, candidates = became("local-2", "ring_kv", planted("ring_kv", recipe))
    assert row["outcome"] == Replayed.NOT_REPLAYED and not candidates
    assert all(part in row["message"] for part in ("step 1 of 1", "ring_kv/n2-", *EARLY[:2]))
    assert row["way"] == "permute_ring, early issue" and row["program"] is None


def test_what_was_written_for_the_source_is_traced_and_proven_anew() -> None:
    """A strategy of a stranger that is right at four ranks only."""
    source = """from overlayccl_core.program.language import all_reduce


def wrong_elsewhere(io, p):
    for m in range(p.microbatches):
        for layer in range(p.layers):
            part = io.read("partial", m, layer)
            total = all_reduce(part, "sum")
            io.write("total", m, layer, total if p.world_size == 4 else part)
"""
    recipe = Recipe(base=source_base(source, "wrong_elsewhere"))
    for deployment, outcome in (("local", Replayed.PROVEN), ("local-8", Replayed.NOT_PROVEN)):
        row, candidates = became(deployment, "tp_mlp", planted("tp_mlp", recipe, source))
        assert row["outcome"] == outcome, row
        assert candidates[0]["origin"] == "sketch"
    lost, _ = became("local", "tp_mlp", planted("tp_mlp", recipe))
    assert lost["outcome"] == Replayed.NOT_REPLAYED and "needs the source" in lost["message"]


def test_where_nothing_was_chosen_at_these_sizes_the_row_says_so() -> None:
    row, _ = became("local-2", "tp_mlp", planted("uniform_a2a", Recipe(base="permute_ring")))
    assert row["outcome"] == Replayed.NO_CASE and row["recipe"] is None and "local" in row["message"]
    smaller = planted("tp_mlp", Recipe(base="merged_over_microbatches"))
    parameters = smaller["parameters"].replace("[1, 16, 16]", "[1, 16, 4]")
    smaller |= {"parameters": parameters, "case": smaller["case"].replace("1KiB", "256B")}
    assert became("local-2", "tp_mlp", smaller)[0]["outcome"] == Replayed.NO_CASE


def test_the_same_sizes_are_found_on_other_ranks_and_in_groups() -> None:
    entry = ENTRIES["tp_mlp"]
    eight = load(ROOT / "config/deployments/local-8.yaml")
    whole, groups = (case_of("tp_mlp", {**entry, "ranks": ranks}, eight) for ranks in (8, 4))
    wider = case_of("tp_mlp", {**entry, "shape": [1, 16, 32]}, eight)
    there = [wider, groups, whole]
    assert catalog.same_sizes(case_at("local", "tp_mlp"), there) == whole
    assert catalog.same_sizes(groups, there) == groups
    assert catalog.same_sizes(case_at("local", "tp_mlp"), [wider]) is None
    assert catalog.same_sizes(case_at("local", "uniform_a2a"), there) is None
