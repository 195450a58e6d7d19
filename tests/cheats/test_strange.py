"""Strategies that look wrong and are right must be accepted: the gates reject what is wrong, not what is odd."""

from pathlib import Path

import pytest

from overlayccl_core.program.library import functions_of
from overlayccl_core.program.numerics import NumericsClass
from tests.cheats.judge import judge
from tests.small_problems import exchange, layers, strategy

SOURCE = Path(__file__).with_name("strange.py").read_text()
PROBLEM = exchange(4, {"x": (8,), "z": (8,)}, {"y": (8,)})
NAMES = [name for name in functions_of(SOURCE) if name != "reference"]
EXACT = {
    "broadcasts_by_a_masked_sum",
    "doubles_and_halves",
    "each_rank_reads_itself",
    "makes_a_sum_for_nobody",
    "negates_twice",
    "sums_garbage_beside_it",
    "turns_and_turns_back",
}


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_strange_but_right(name: str) -> None:
    verdict = judge(SOURCE, name, PROBLEM)
    assert verdict.passed, verdict.message
    assert (verdict["numerics"] == NumericsClass.EXACT) == (name in EXACT)


def test_merging_along_the_wavefront_is_legal() -> None:
    """Layer l of microbatch m goes with layer l - 1 of microbatch m + 1: nobody waits for itself."""
    body = """
for step in range(p.microbatches + p.layers - 1):
    places = [(m, step - m) for m in range(p.microbatches) if 0 <= step - m and step - m < p.layers]
    joined = concat([flatten(io.read("partial", m, layer)) for m, layer in places])
    totals = split(all_reduce(joined), len(places))
    for place, total in zip(places, totals):
        io.write("total", place[0], place[1], reshape(total, p.shape))
"""
    text = strategy(body, "all_reduce, concat, flatten, reshape, split")
    reference = """
def reference(io, p):
    for m in range(p.microbatches):
        for layer in range(p.layers):
            io.write("total", m, layer, all_reduce(io.read("partial", m, layer)))
"""
    verdict = judge(text + reference, "tried", layers(4, 3, 4, (2, 3)))
    assert verdict.passed, verdict.message
