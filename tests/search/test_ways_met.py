"""A search from developer's strategy alone comes upon every way that Problems share, or upon something cheaper."""

from collections.abc import Mapping
from typing import Any

import pytest

from overlayccl_core import catalog
from overlayccl_core.costmodel.features import features
from overlayccl_core.program.library import read_library
from overlayccl_core.program.problem import Problem
from tests.known_cases import case
from tests.search.costs import Cost, bases_of, favouring, found_at, plain, us_of

# As config/config.yaml and its models have them, on four ranks; of dist_ce fewer tokens and words.
CONFIGURED: Mapping[str, Mapping[str, Any]] = {
    "layer_block_ar": {"microbatches": 2, "layers": 4, "shape": [1, 64, 128]},
    "tp_mlp": {"microbatches": 4, "layers": 4, "shape": [2, 64, 128], "site": "exit"},
    "grad_ar": {"tensors": {"count": 8, "smallest": "1KiB", "largest": "2MiB"}, "overlap": False},
    "dist_ce": {"tokens": 64, "vocabulary": 384},
    "fsdp_prefetch": {"microbatches": 2, "layers": 4, "shape": [512, 128]},
    "attention": {"heads": 4, "sequence": 64, "head_dim": 16},
    "ring_kv": {"heads": 4, "sequence": 256, "head_dim": 32},
}
NOT_TRIED = "permute_ring"  # what goes round a ring multiplies families: a search leaves it to the known ways


def missed(problem: Problem, cost: Cost) -> list[str]:
    """Ways whose values the search does not price though they are cheaper than all that it found."""
    developer, *others = bases_of(problem)
    found = found_at(problem, cost, bases=[developer]).candidates
    known = {c.program.value_digest for c in found}
    least_us, *_ = min(c.order for c in found if not c.lossy)
    ways = read_library(catalog.library_source(problem.case.problem)).ways
    return [
        base.recipe.first
        for base in others
        if base.recipe.first in ways
        and base.program.value_digest not in known
        and us_of(features(base.program), cost) < least_us
    ]


@pytest.mark.parametrize("name", CONFIGURED)
def test_no_way_that_is_cheaper_than_all_that_it_found_is_missed(name: str) -> None:
    for problem in catalog.directions(case(name, CONFIGURED[name])):
        if catalog.reference_program(problem).collectives:
            assert set(missed(problem, plain)) <= {NOT_TRIED}


def test_it_comes_upon_one_exchange_of_copies_of_a_parallel_block() -> None:
    problem = catalog.build(case("layer_block_ar", CONFIGURED["layer_block_ar"]))
    developer, *ways = bases_of(problem)
    [way] = [base.program for base in ways if base.recipe.first == "all_to_all_of_copies"]
    result = found_at(problem, favouring("all_to_all"), bases=[developer])
    assert way.value_digest in {c.program.value_digest for c in result.candidates}
