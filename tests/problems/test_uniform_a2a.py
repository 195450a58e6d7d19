"""uniform_a2a: Cases and placements."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import uniform_a2a


def test_a_payload_is_split_into_one_row_for_each_rank() -> None:
    case = catalog.case("uniform_a2a", {"payload": "64KiB"}, ranks=4, ranks_per_node=4)
    assert case.id == "uniform_a2a/n4-64KiB-f32"
    assert (case["chunk"], case["width"]) == (1, 4096)
    assert uniform_a2a.payload_bytes(case) == 65536
    assert uniform_a2a.bus_factor(case) == pytest.approx(0.75)


def test_rows_and_width_can_be_given() -> None:
    case = catalog.case(
        "uniform_a2a", {"chunk": 10, "width": 2048}, ranks=224, ranks_per_node=32, dtype="bfloat16"
    )
    assert uniform_a2a.problem(case).inputs["send",].shape == (2240, 2048)
    with_width = catalog.case("uniform_a2a", {"payload": "64KiB", "width": 64}, ranks=4, ranks_per_node=4)
    assert (with_width["chunk"], with_width["width"]) == (64, 64)
