"""Cutting collectives, the way back from merging."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rules import split
from tests.known_cases import case
from tests.rewrites.rules.tried import PAIRS, payloads, refusal, rewritten, traced

RULE = "split"


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("all_reduce(x)", 12),
        (f'all_reduce(x, "sum", {PAIRS})', 12),
        ("all_gather(x)", 48),
        (f"all_gather(x, 0, {PAIRS})", 24),
        ("reduce_scatter(x)", 3),
        ("all_to_all(x)", 12),
        (f"all_to_all(x, 0, {PAIRS})", 12),
        ("collective_permute(x, [(0, 2), (2, 1), (3, 3)])", 12),
    ],
)
def test_every_kind_is_cut_and_gives_what_it_gave(call: str, size: int) -> None:
    new = rewritten(RULE, traced(f'io.write("y", {call})', size), "2")
    assert len(new.collectives) == 2 and sum(payloads(new)) == 12


def test_a_maximum_stays_one() -> None:
    new = rewritten(RULE, traced('io.write("y", all_reduce(x, "max"))', 12, linear=False), "4")
    assert payloads(new) == [3] * 4


def test_parts_are_as_equal_as_elements_allow() -> None:
    assert payloads(rewritten(RULE, traced('io.write("y", all_reduce(x))', 12), "8")) == [1, 2] * 4
    of_blocks = rewritten(RULE, traced('io.write("y", all_to_all(x))', 12), "2")
    assert payloads(of_blocks) == [4, 8]  # one and two columns of each of the four blocks


def test_what_is_shorter_than_its_parts_stays_whole() -> None:
    assert "side conditions" in refusal(RULE, traced('io.write("y", all_to_all(x))', 12), "4")
    program = traced('io.write("y", all_reduce(x))', 12)
    assert "side conditions" in refusal(RULE, program, "25MiB")
    assert split.knobs(program, program.collectives) == ("2", "4", "8")


def test_a_cap_gives_the_fewest_parts_that_keep_it() -> None:
    mib = MIB // 4
    problem = catalog.build(case("grad_ar", {"sizes": [60 * mib, 25 * mib]}))
    program = replay(Recipe(base="one_by_one"), problem)
    assert split.knobs(program, program.collectives) == ("2", "4", "8", "25MiB")
    new = apply(program, (RULE, "all_reduce:world:1", "25MiB"))
    assert payloads(new) == [20 * mib] * 3 + [25 * mib]


@pytest.mark.parametrize("knob", ["", "0", "1/2", "half", "MiB"])
def test_a_knob_that_is_none_is_refused(knob: str) -> None:
    assert "25MiB" in refusal(RULE, traced('io.write("y", all_reduce(x))', 12), knob)


def test_a_million_collectives_for_one_are_refused() -> None:
    problem = catalog.build(case("grad_ar", {"sizes": [2**20]}))
    program = replay(Recipe(base="one_by_one"), problem)
    assert all(part in refusal(RULE, program, "1000000") for part in ("at most 1024", "got 1000000"))
    assert len(apply(program, (RULE, "all_reduce:world:1", "1024")).collectives) == 1024


@pytest.mark.parametrize("call", ["all_reduce(x)", "all_gather(x)", "reduce_scatter(x)", "all_to_all(x)"])
def test_merging_the_parts_gives_the_whole_again(call: str) -> None:
    size = {"all_g": 48, "reduc": 3}.get(call[:5], 12)
    whole = traced(f'io.write("y", {call})', size)
    parts = rewritten(RULE, whole, "2")
    assert rewritten("merge", parts, "all").value_digest == whole.value_digest
