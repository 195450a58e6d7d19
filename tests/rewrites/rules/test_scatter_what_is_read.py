"""A reduction that is read in part becomes a reduce_scatter of the parts."""

from overlayccl_core.program.kinds import Kind, Reduction
from tests.rewrites.rules.tried import payloads, refusal, rewritten, traced

RULE = "scatter_what_is_read"


def test_in_member_order_the_parts_need_no_packing() -> None:
    new = rewritten(RULE, traced('io.write("y", slice_axis(all_reduce(x), 0, [0, 3, 6, 9], 3))', 3))
    assert new.collectives[0].operands[0].kind is Kind.INPUT
    assert new.outputs[("y",)].kind is Kind.REDUCE_SCATTER


def test_a_maximum_of_negative_values_stays_a_maximum() -> None:
    body = 'io.write("y", slice_axis(all_reduce(x, "max"), 0, [0, 3, 5, 9], 2))'
    new = rewritten(RULE, traced(body, 2, linear=False))
    assert new.collectives[0].attr.reduction is Reduction.MAX


def test_what_two_views_read_counts_once_and_an_output_counts_as_all() -> None:
    two = (
        "z = all_reduce(x)\n"
        'io.write("y", slice_axis(z, 0, [0, 3, 6, 9], 2))\n'
        'io.write("z", slice_axis(z, 0, [1, 4, 7, 10], 2))'
    )
    assert payloads(rewritten(RULE, traced(two, {"y": 2, "z": 2}))) == [12]
    out = 'z = all_reduce(x)\nio.write("y", slice_axis(z, 0, [0, 3, 6, 9], 2))\nio.write("z", z)'
    assert "side conditions" in refusal(RULE, traced(out, {"y": 2, "z": 12}))
