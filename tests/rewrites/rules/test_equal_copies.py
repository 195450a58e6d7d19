"""Members with provably equal values stop talking; all others keep talking."""

import pytest

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import DType, Kind
from tests.rewrites.rules.tried import kinds, refusal, rewritten, traced

RULE = "equal_copies"


def test_only_the_sites_with_copies_change() -> None:
    program = traced('io.write("y", all_reduce(e))\nio.write("z", all_reduce(x))', {"y": 12, "z": 12})
    assert kinds(rewritten(RULE, program)) == [Kind.ALL_REDUCE]


def test_copies_in_16_bits_and_behind_a_cast() -> None:
    body = 'io.write("y", cast(all_gather(cast(e, "float16")), "float32"))'
    assert rewritten(RULE, traced(body, 48)).collectives == []
    narrow = traced('io.write("y", all_reduce(e))', 12, dtype=DType.BFLOAT16)
    assert rewritten(RULE, narrow).collectives == []


def test_a_layout_that_would_be_too_ragged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program = traced('io.write("y", all_gather(slice_axis(e, 0, [0, 4, 2, 6], 2)))', 8)
    monkeypatch.setattr(maps, "MAX_RUNS", 3)
    assert "side conditions" in refusal(RULE, program)
