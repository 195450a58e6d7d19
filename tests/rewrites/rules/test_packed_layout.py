"""A layout that sends zeros or the same element twice is laid out on arrival instead."""

from overlayccl_core.program.kinds import DType
from tests.rewrites.rules.tried import payloads, rewritten, traced

RULE = "packed_layout"


def test_through_a_cast_the_packed_values_are_cast() -> None:
    body = 'boundary()\nio.write("y", cast(all_gather(cast(pad(x, 0, 0, 20), "bfloat16")), "float32"))'
    new = rewritten(RULE, traced(body, 80))
    assert payloads(new) == [12]
    assert (new.collectives[0].dtype, new.collectives[0].label.graph) == (DType.BFLOAT16, "g1")
