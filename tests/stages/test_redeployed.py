"""Choices of another tree, planted, at 2, 4 and 8 ranks: replayed, proven, priced, or at which step not and why."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import read
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.deployments.floor import Floor
from overlayccl_core.program.case import Case, problem_of
from overlayccl_core.program.json_form import loads
from overlayccl_core.rewrites.recipe import Recipe, source_base
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.stages import bench, cases, known_ways, redeployed, regret, shortlist
from overlayccl_core.tables import table
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.redeploy import REDEPLOYED, SOURCE_CHOICES, Replayed
from overlayccl_core.tables.rows import frame_of
from overlayccl_core.tables.shortlist import SHORTLIST, Why
from tests.stages.flow import ROOT, quiet

Row = dict[str, Any]
ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "tp_mlp": {"microbatches": 2, "layers": 2, "shape": [1, 16, 16]},
    "uniform_a2a": {"payload": "64KiB"},
    "alltoallv": {"pattern": "random", "rows": 64, "width": 256},
    "ring_kv": {"heads": 4, "sequence": 256, "head_dim": 32},
}
SPLIT = ("split", "all_reduce:world:1", "8")
EARLY = ("early_issue", "collective_permute:other:2", "")


def load_named(deployment: str) -> Deployment:
    return load(ROOT / f"config/deployments/{deployment}.yaml")


def case_at(deployment: str, problem: str) -> Case:
    return case_of(problem, ENTRIES[problem], load_named(deployment))


def planted(problem: str, recipe: Recipe, source: str | None = None) -> Row:
    """A choice at four ranks, forward."""
    here = {"tree": "local", "direction": "forward", "candidate": "x", "source": source}
    return here | cases.row(case_at("local", problem)) | {"recipe": recipe.dumps()}


def ways_at(deployment: str, problem: str) -> pl.DataFrame:
    """The known ways there, both directions."""
    directions = catalog.directions(case_at(deployment, problem))
    rows = [row for one in directions for row in known_ways.known_way_rows(one, None, None)]
    return frame_of(rows, KNOWN_WAYS.schema, "known_ways")


def run_at(deployment: str, ways: pl.DataFrame, *choices: Row) -> dict[str, list[Row]]:
    """What the rule writes; each column of a price costs 1 us."""
    programs = map(loads, ways["program_json"].drop_nulls())
    columns = {column for program in programs for column in features(program)}
    theta = Theta(
        tuple(
            Coefficient(column=one, value=1.0, low=1.0, high=1.0, status=FitStatus.FITTED, programs=1)
            for one in columns
        ),
        0.9,
        1.1,
        "planted",
    )
    facts = DeploymentFacts(theta=theta, capabilities=None, memory_budget_bytes=None)
    frame = frame_of(choices, SOURCE_CHOICES.schema, "source_choices")
    case = case_at(deployment, problem_of(ways["case"][0]))
    listed = frame_of([cases.row(case)], CASES.schema, "cases")
    made = redeployed.run(frame, listed, ways, facts, progress=quiet)
    frame_of(made["redeployed"], REDEPLOYED.schema, "redeployed")
    return made


def became(deployment: str, problem: str, *choices: Row) -> tuple[Row, list[Row]]:
    """The first tree's forward row of `redeployed`, and the rows of `candidates`."""
    made = run_at(deployment, ways_at(deployment, problem), *choices)
    return made["redeployed"][0], made["candidates"]


@pytest.mark.parametrize("deployment", ["local-2", "local", "local-8"])
@pytest.mark.parametrize(
    ("problem", "way", "step"),
    [
        ("tp_mlp", "merged_over_microbatches", SPLIT),
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


@pytest.mark.ranks
@pytest.mark.usefixtures("unrepeated")
def test_on_two_ranks_it_is_timed_beside_the_known_ways(tmp_path: Path) -> None:
    """From a choice at four ranks to its regret; the known way that this run chose is its own choice."""
    settings = read()
    settings = settings.changed(bench=settings.bench.changed(seconds=2.0, minimum_rounds=2, maximum_rounds=4))
    found = Recipe(base="merged_over_microbatches", steps=(SPLIT,))
    own = planted("tp_mlp", Recipe(base="merged_over_microbatches")) | {"tree": "local-2"}
    ways = ways_at("local-2", "tp_mlp").filter(direction="forward")
    made = run_at("local-2", ways, planted("tp_mlp", found), own)
    candidates = table.write(CANDIDATES, made["candidates"], tmp_path / "candidates.parquet")
    nothing = pl.DataFrame(schema=PRICES.schema)
    rows = shortlist.run(settings, ways, nothing, candidates, emit, progress=quiet)
    listed = table.write(SHORTLIST, rows, tmp_path / "shortlist.parquet")
    assert [one["candidate"] for one in rows if Why.REDEPLOYED in one["why"]] == [
        made["redeployed"][0]["candidate"]
    ]
    timed = bench.run(load_named("local-2"), settings, listed, tmp_path, progress=quiet)
    tables = regret.RedeployTables(
        redeployed=frame_of(made["redeployed"], REDEPLOYED.schema, "redeployed"),
        shortlist=listed,
        bench=table.write(BENCH, timed, tmp_path / "bench.parquet"),
    )
    [row] = regret.run("local-2", [tables], Floor(latency_us={}, bytes_per_us=inf))
    assert row["own"] == "merged_over_microbatches" and row["candidate"].startswith("found-")
    assert row["regret"] > 0 and row["speedup"] > 0 and row["message"] == ""
