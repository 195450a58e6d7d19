"""Strategies that look wrong and are right must be accepted: the gates reject what is wrong, not what is odd."""

from pathlib import Path

import pytest

from overlayccl_core.program.kinds import DType
from overlayccl_core.program.library import functions_of
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.tracing import trace_source
from tests.cheats.judge import judge
from tests.small_problems import exchange, layers, strategy

SOURCE = Path(__file__).with_name("strange.py").read_text()
PROBLEM = exchange(4, {"x": (8,), "z": (8,)}, {"y": (8,)})
NAMES = [name for name in functions_of(SOURCE) if name != "reference"]
EXACT = {
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


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ("scale(scale(all_reduce(x), 3), 1, 3)", True),
        ("scale(all_reduce(scale(x, 10**6)), 1, 10**6)", True),
        ('add(all_reduce(x), zeros((8,), "float16"))', True),
        ("all_reduce(select(all_reduce(x), [1, 0, 0, 0]))", False),
    ],
)
def test_exact_is_the_same_bits(body: str, same: bool) -> None:
    """The normal form leaves out scales that come back and zeros that are added alone: what runs is the reference.
    Zeros that a collective adds do run, and make +0 of -0."""
    at = exchange(4, {"x": (8,)}, {"y": (8,)}, dtype=DType.FLOAT16)
    text = strategy(f'x = io.read("x")\nio.write("y", {body})', "add, all_reduce, scale, select, zeros")
    text += '\ndef reference(io, p):\n    io.write("y", all_reduce(io.read("x")))\n'
    verdict = judge(text, "tried", at)
    assert verdict.passed, verdict.message
    tried, reference = (trace_source(text, name, at) for name in ("tried", "reference"))
    assert (tried.outputs == reference.outputs) == same
    assert (verdict["numerics"] == NumericsClass.EXACT) == same


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
