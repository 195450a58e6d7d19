"""grad_ar: Cases, order of the backward pass, placements."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.problems import grad_ar

SPREAD = {"tensors": {"count": 40, "smallest": "1KiB", "largest": "2MiB"}}


def test_tensors_are_spread_from_smallest_to_largest_in_a_mixed_order() -> None:
    case = catalog.case("grad_ar", SPREAD, ranks=4, ranks_per_node=4)
    sizes = case["sizes"]
    assert len(sizes) == 40 == len(set(sizes))
    assert (min(sizes), max(sizes)) == (256, 524288)
    assert list(sizes) != sorted(sizes)
    assert grad_ar.payload_bytes(case) == 4 * sum(sizes)
    assert case.id == "grad_ar/n4-t40-11.3MiB-f32"


@pytest.mark.parametrize("count", [1, 2, 3, 5, 13, 26, 41])
def test_any_number_of_tensors_keeps_both_ends(count: int) -> None:
    entry = {"tensors": {"count": count, "smallest": 64, "largest": 4096}}
    sizes = catalog.case("grad_ar", entry, ranks=4, ranks_per_node=4)["sizes"]
    assert len(sizes) == count
    assert min(sizes) == 16
    assert max(sizes) == (1024 if count > 1 else 16)


def test_one_backward_pass_gives_all_gradients_and_the_optimizer_needs_all_means() -> None:
    problem = grad_ar.problem(catalog.case("grad_ar", {"sizes": [3, 4]}, ranks=4, ranks_per_node=4))
    backward, optimizer = problem.segments
    assert backward.gives == (("gradient", 0), ("gradient", 1))
    assert optimizer.needs == (("mean", 0), ("mean", 1))


def test_overlapped_gradients_come_from_the_last_tensor_to_the_first() -> None:
    case = catalog.case("grad_ar", {"sizes": [3, 4, 5], "overlap": True}, ranks=4, ranks_per_node=4)
    problem = grad_ar.problem(case)
    assert case.id.endswith("-overlap-f32")
    assert problem.parameters["tensor_order"] == (2, 1, 0)
    assert {s.name: s.after for s in problem.segments[:3]} == {
        ("backward", 2): (),
        ("backward", 1): (("backward", 2),),
        ("backward", 0): (("backward", 1),),
    }
