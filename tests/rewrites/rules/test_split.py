"""Cutting collectives, the way back from merging."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.configuration.sizes import MIB
from overlayccl_core.rewrites.apply import apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rules import split
from tests.known_cases import case
from tests.rewrites.rules.tried import payloads, refusal, rewritten, traced

RULE = "split"


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
