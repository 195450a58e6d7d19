"""Proposers that draw: deterministic for a seed, as many evaluations as they are given, nothing proposed twice."""

import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration import searches
from overlayccl_core.configuration.searches import Search
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.problem import Problem
from overlayccl_core.search.labels import LABEL_RULES, OTHER_ORDERS
from overlayccl_core.search.loop import SearchResult, SearchStop
from overlayccl_core.search.proposal import EVALUATED, ProposalOutcome
from overlayccl_core.search.proposer import plug_in
from tests.known_cases import case
from tests.search.costs import at_random, found_at

FOLDER = Path(__file__).parents[2] / "config/searches"
NAMES = ("random", "evolutionary", "tpe")
TENSORS = catalog.build(case("grad_ar", {"sizes": [7, 64, 1, 33]}))
COST = at_random(1)
SPENT = 40


def search_of(name: str, **changes: Any) -> Search:
    return searches.load(name, FOLDER).changed(**{"evaluations": SPENT} | changes)


def found(search: Search, problem: Problem = TENSORS, **judge: object) -> SearchResult:
    """What a search from developer alone comes to."""
    return found_at(problem, COST, plug_in(search.proposer).proposer(search), search=search, **judge)


@cache
def of_seed(name: str, seed: int = 0) -> SearchResult:
    return found(search_of(name, seed=seed))


def tried(result: SearchResult) -> list[tuple[object, ...]]:
    return [(a.parent, a.steps, a.outcome, a.value_digest) for a in result.attempts]


def proposed(result: SearchResult) -> list[tuple[str | None, tuple[object, ...]]]:
    """(parent, steps) of what was not the loop's own."""
    return [
        (a.parent, a.steps)
        for a in result.attempts
        if a.steps and not any(rule in LABEL_RULES for rule, *_ in a.steps)
    ]


def evaluations(result: SearchResult) -> int:
    return sum(a.outcome in EVALUATED for a in result.attempts)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_search_and_another_another(name: str) -> None:
    first = tried(of_seed(name))
    assert tried(found(search_of(name))) == first != tried(of_seed(name, 1))


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_when_its_evaluations_are_spent_with_what_is_cheaper_than_developer(name: str) -> None:
    result = of_seed(name)
    assert result.explored.stop is SearchStop.NO_NEW_ELITE
    # beyond: the last elite in every other order of issue, and the winner with any of two classes in each
    assert SPENT <= evaluations(result) <= SPENT + 4 * len(OTHER_ORDERS)
    start = next(c.us for c in result.candidates if c.origin == "developer")
    by_rules = found_at(TENSORS, COST).best
    assert result.best is not None and by_rules is not None
    assert 0.99 * by_rules.us <= result.best.us < 0.9 * start


@pytest.mark.parametrize("name", ["random", "evolutionary"])
def test_no_step_is_tried_twice_at_a_program(name: str) -> None:
    steps = proposed(of_seed(name))
    assert steps and max(Counter(steps).values()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_where_nothing_is_left_to_draw(name: str) -> None:
    _, identity = catalog.directions(case("tp_mlp", {"microbatches": 1, "layers": 1, "shape": [1, 2, 6]}))
    result = found(search_of(name, evaluations=10**6), identity)
    assert result.explored.stop is SearchStop.NO_NEW_ELITE and not proposed(result)


def test_a_child_may_be_the_end_of_one_recipe_at_another_program() -> None:
    result = found(search_of("evolutionary", crossover=0.9, evaluations=60))
    of_others = {c.recipe.steps for c in result.candidates}
    crossed = [steps for _, steps in proposed(result) if len(steps) > 1]
    assert crossed
    assert all(any(recipe[-len(steps) :] == steps for recipe in of_others) for steps in crossed)
    assert not [s for s in proposed(found(search_of("evolutionary", crossover=0))) if len(s[1]) > 1]


def test_a_recipe_of_tpe_has_only_steps_that_apply() -> None:
    result = found(search_of("tpe", steps=3))
    outcomes = {a.outcome for a in result.attempts}
    assert outcomes <= {ProposalOutcome.PROGRAM, ProposalOutcome.DUPLICATE}
    assert {len(steps) for _, steps in proposed(result)} == {1, 2, 3}


@pytest.mark.parametrize("name", NAMES)
def test_where_nothing_can_run_it_searches_all_the_same(name: str) -> None:
    result = found(search_of(name), capabilities=Capabilities([]))
    assert result.best is None and evaluations(result) >= SPENT


@pytest.mark.parametrize("name", NAMES)
def test_fewer_bits_are_drawn_only_where_they_are_asked_for(name: str) -> None:
    def wires(lossy: bool) -> set[object]:
        steps = proposed(found(search_of(name, lossy=lossy)))
        return {one for _, of in steps for one, *_ in of if one == "wire_dtype"}  # type: ignore[misc]

    assert not wires(False) and wires(True)


def test_optuna_is_imported_by_a_search_that_uses_it_alone() -> None:
    code = "import sys, overlayccl_core.search.proposers.tpe; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
