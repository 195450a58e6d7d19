"""uniform_a2a: Cases and placements."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import uniform_a2a
from overlayccl_core.program.kinds import Placement


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


@pytest.mark.parametrize(
    ("entry", "ranks", "message"),
    [
        ({"payload": "64KiB"}, 3, "payload .* of 65532"),
        ({"payload": "8B"}, 4, "payload .* of 16$"),
        ({"payload": "64KiB", "width": 63}, 4, "payload .* of 1008"),
        ({"payload": "64 kilobytes"}, 4, "payload: .*such as 64KiB"),
        ({"payload": "64KiB", "chunk": 1}, 4, "either payload, or chunk"),
        ({"chunk": 1}, 4, "width must .*chunk"),
    ],
)
def test_what_does_not_divide_over_the_ranks_is_refused(
    entry: dict[str, object], ranks: int, message: str
) -> None:
    with pytest.raises(ValueError, match=f"uniform_a2a: .*{message}"):
        catalog.case("uniform_a2a", entry, ranks=ranks, ranks_per_node=ranks)


def test_every_rank_has_its_own_data_and_gradients() -> None:
    problem = uniform_a2a.problem(catalog.case("uniform_a2a", {"payload": "1KiB"}, ranks=4, ranks_per_node=4))
    for port in (problem.inputs["send",], problem.outputs["received",]):
        assert (port.placement, port.cotangent) == (Placement.VARYING, Placement.VARYING)
