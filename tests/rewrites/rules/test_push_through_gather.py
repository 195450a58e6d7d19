"""What everybody computes of what was gathered, each computes of its own part."""

from dataclasses import replace

import pytest

from overlayccl_core.program.kinds import Kind, Reduction
from overlayccl_core.program.rowwise import OPERATIONS
from tests.rewrites.rules.tried import refusal, rewritten, traced

RULE = "push_through_gather"


def test_rows_are_reduced_in_parts_by_the_reduction_of_their_operation_and_not_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = traced('io.write("y", reduce_max(reshape(all_gather(x), (4, 12)), 0))', 12, linear=False)
    [collective] = [x for x in rewritten(RULE, program).nodes if x.kind is Kind.ALL_REDUCE]
    assert collective.attr.reduction is Reduction.MAX
    monkeypatch.setitem(OPERATIONS, "row_max", replace(OPERATIONS["row_max"], reduction=None))
    assert "side conditions" in refusal(RULE, program)
