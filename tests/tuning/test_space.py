"""The ways that a tuner may take: every one proven, the script's own first, none twice."""

from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import equivalence
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.tuning import space
from overlayccl_core.tuning.space import PARTS, OpenWay, space_of


def case(kind: str, elements: int, **placed: Any) -> Case:
    entry = {"calls": [{"kind": kind, "elements": elements}]}
    return catalog.case(
        "captured", entry, **{"ranks": 4, "ranks_per_node": 4, "dtype": DType.FLOAT32, **placed}
    )


def ways_of(kind: str, elements: int, **placed: Any) -> list[OpenWay]:
    return space_of(catalog.build(case(kind, elements, **placed)), None, None)


@pytest.mark.parametrize(
    ("kind", "elements"),
    [("all_reduce_sum", 4096), ("all_gather", 512), ("reduce_scatter_avg", 4096), ("all_to_all", 4096)],
)
def test_every_way_is_proven_and_runs_unlike_the_others(kind: str, elements: int) -> None:
    ways = ways_of(kind, elements)
    reference = catalog.reference_program(catalog.build(case(kind, elements)))
    assert ways[0].name == "as_written" and len({way.family for way in ways}) > 1
    assert len({way.name for way in ways}) == len({way.program.run_digest for way in ways}) == len(ways)
    for way in ways:
        assert equivalence.prove(way.program, reference).passed and way.numerics != "lossy"
        assert way.parts in PARTS and way.name.isidentifier()


CHEATS = """
from overlayccl_core.program.language import Library, all_reduce, cast, scale

def halves(io, p):
    io.write("result", 0, scale(all_reduce(io.read("given", 0), "sum"), 1, 2))

def in_few_bits(io, p):
    io.write("result", 0, cast(all_reduce(cast(io.read("given", 0), "bfloat16"), "sum"), "float32"))

LIBRARY = Library(developer="halves", others=("in_few_bits",))
"""


@pytest.mark.parametrize("cheat", ["halves", "in_few_bits"])
def test_what_is_wrong_or_lossy_is_no_way(cheat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = space.replay
    planted: list[str] = []

    def replay(recipe: Recipe, problem: Problem) -> Program:
        if recipe.base != "gather_and_sum":
            return honest(recipe, problem)
        planted.append(cheat)
        return trace_source(CHEATS, cheat, problem)

    monkeypatch.setattr(space, "replay", replay)
    assert "gather_and_sum" not in {way.family for way in ways_of("all_reduce_sum", 4096)} and planted


def test_parts_are_in_flight_together() -> None:
    [halves] = [way for way in ways_of("all_reduce_sum", 4096) if way.name == "as_written_in_2"]
    assert [x.size for x in halves.program.collectives] == [2048, 2048]
    assert {x.label.issue.value for x in halves.program.collectives} == {"all_in_flight"}


def test_a_call_of_one_element_is_not_split() -> None:
    assert {way.parts for way in ways_of("all_reduce_sum", 1)} == {1}


def test_across_hosts_there_are_ways_in_two_tiers() -> None:
    near, far = (ways_of("all_reduce_sum", 4096, ranks_per_node=n) for n in (4, 2))
    assert "hierarchical" in {way.family for way in far} - {way.family for way in near}
