"""Butterflies, as people write them with ^, & and <<: traced, legal, and proven equal to the reference."""

from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.gates import legality
from overlayccl_core.gates.equivalence import prove
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from tests.known_cases import case

BUTTERFLIES = '''"""Averages of gradients by butterflies; for powers of two."""

from overlayccl_core.program.language import (
    add, collective_permute, concat, flatten, not_applicable, pad, reshape, scale, slice_axis,
)

MIB = 1 << 20


def recursive_doubling(io, p):
    """log2(N) exchanges of whole tensors: in round k rank r swaps with the rank that differs in bit k."""
    n = _power_of_two(p)
    for i in p.tensor_order:
        total = io.read("gradient", i)
        for k in range(n.bit_length() - 1):
            total = add(total, _from(total, n, 1 << k))
        io.write("mean", i, scale(total, 1, n))


def recursive_halving(io, p):
    """Half of what is left goes to the partner in each round, and comes back in the opposite order."""
    n = _power_of_two(p)
    for i in p.tensor_order:
        x = io.read("gradient", i)
        size = x.shape[0]
        mine = pad(x, 0, 0, -(-size // n) * n)
        bits = [1 << k for k in range(n.bit_length() - 1)]
        for bit in reversed(bits):
            half = mine.shape[0] >> 1
            kept = slice_axis(mine, 0, [half if r & bit else 0 for r in range(n)], half)
            sent = slice_axis(mine, 0, [0 if r & bit else half for r in range(n)], half)
            mine = add(kept, _from(sent, n, bit))
        for bit in bits:
            half = mine.shape[0]
            here = pad(mine, 0, [half if r & bit else 0 for r in range(n)], half << 1)
            there = pad(_from(mine, n, bit), 0, [0 if r & bit else half for r in range(n)], half << 1)
            mine = add(here, there)
        io.write("mean", i, scale(slice_axis(mine, 0, 0, size), 1, n))


def wrong_partner(io, p):
    """As recursive doubling, but bit k is k."""
    n = _power_of_two(p)
    for i in p.tensor_order:
        total = io.read("gradient", i)
        for k in range(n.bit_length() - 1):
            total = add(total, _from(total, n, k + 1 & n - 1))
        io.write("mean", i, scale(total, 1, n))


def _power_of_two(p):
    if p.world_size & (p.world_size - 1):
        not_applicable("a world size that is no power of two")
    return p.world_size


def _from(x, n, bit):
    return collective_permute(x, [(r, r ^ bit) for r in range(n)])
'''


def judged(strategy: str, ranks: int, ranks_per_node: int = 0) -> tuple[Program, Verdict]:
    problem = catalog.build(case("grad_ar", ranks=ranks, ranks_per_node=ranks_per_node))
    program = trace_source(BUTTERFLIES, strategy, problem)
    assert legality.check(program).outcome is Outcome.PASS, legality.check(program).message
    return program, prove(program, catalog.reference_program(problem))


@pytest.mark.parametrize(("ranks", "ranks_per_node"), [(2, 2), (4, 4), (8, 8), (16, 4)])
def test_recursive_doubling_is_an_all_reduce(ranks: int, ranks_per_node: int) -> None:
    program, proof = judged("recursive_doubling", ranks, ranks_per_node)
    assert proof.outcome is Outcome.PASS, proof.message
    assert {x.kind.value for x in program.collectives} == {"collective_permute"}
    assert program.collectives[0].sources == tuple(r ^ 1 for r in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_recursive_halving_and_its_way_back_are_an_all_reduce(ranks: int) -> None:
    program, proof = judged("recursive_halving", ranks)
    assert proof.outcome is Outcome.PASS, proof.message
    sizes = [x.size for x in program.collectives][: 2 * (ranks.bit_length() - 1)]
    assert sizes == sizes[::-1] and sizes == [-(-7 // ranks) * ranks // 2 // b for b in _halves(ranks)]


def _halves(ranks: int) -> list[int]:
    down = [1 << k for k in range(ranks.bit_length() - 1)]
    return down + down[::-1]


def test_a_wrong_partner_is_no_all_reduce() -> None:
    assert judged("wrong_partner", 2)[1].outcome is Outcome.PASS  # bit 1 is 1
    assert judged("wrong_partner", 8)[1].outcome is Outcome.FAIL


def test_six_ranks_have_no_butterfly() -> None:
    with pytest.raises(NotApplicable, match="no power of two"):
        judged("recursive_doubling", 6)


def test_the_butterfly_of_the_docs_is_this_one() -> None:
    blocks = (Path(__file__).parents[2] / "docs/strategies.md").read_text().split("```python\n")[1:]
    written = next(block.split("```")[0] for block in blocks if "recursive_doubling" in block)
    words = "add, collective_permute, not_applicable, scale"
    source = f"from overlayccl_core.program.language import {words}\n\n\n{written}"
    program = trace_source(source, "recursive_doubling", catalog.build(case("grad_ar")))
    assert program.digest == judged("recursive_doubling", 4)[0].digest
