"""A sum to which at most one member adds in each slot becomes a gather; nothing else does."""

from overlayccl_core.program.kinds import DType, Kind
from tests.rewrites.rules.tried import rewritten, traced

RULE = "disjoint_support"
SHARES = "pad(slice_axis(x, 0, [0, 1, 2, 3], 3), 0, [0, 3, 6, 9], 12)"


def test_one_rank_that_has_all_sends_its_value_as_it_stands() -> None:
    new = rewritten(RULE, traced('io.write("y", all_reduce(select(x, [False, False, True, False])))', 12))
    assert new.collectives[0].operands[0].kind is Kind.INPUT


def test_through_casts_in_16_bits_and_with_labels() -> None:
    body = f'boundary()\nio.write("y", cast(all_reduce(cast({SHARES}, "bfloat16")), "float32"))'
    new = rewritten(RULE, traced(body, 12))
    assert [x.label.graph for x in new.collectives] == ["g1"]
    assert new.collectives[0].dtype is DType.BFLOAT16
