"""Cases: ids that a person reads, JSON that comes back, values that validate themselves."""

from dataclasses import replace

import pytest

from overlayccl_core.program.case import Case, parameters
from overlayccl_core.program.kinds import DType

CASE = Case(
    problem="tp_mlp",
    ranks=4,
    ranks_per_node=4,
    name="m8-l8-32KiB",
    parameters=parameters({"layers": 8, "shape": [1, 64, 128], "site": "exit"}),
)


def test_ids_name_size_groups_tiers_and_dtype() -> None:
    assert CASE.id == "tp_mlp/n4-m8-l8-32KiB-f32"
    assert replace(CASE, ranks=32, ranks_per_node=32, groups=7).id == "tp_mlp/n32x7-m8-l8-32KiB-f32"
    assert (
        replace(CASE, ranks=32, ranks_per_node=32, groups=7, strided=True).id
        == "tp_mlp/n32s7-m8-l8-32KiB-f32"
    )
    assert (
        replace(CASE, ranks=224, ranks_per_node=32, dtype=DType.BFLOAT16).id
        == "tp_mlp/n224-r32-m8-l8-32KiB-bf16"
    )


def test_members_are_contiguous_or_strided() -> None:
    two = replace(CASE, ranks=2, ranks_per_node=2, groups=2)
    assert two.members() == ((0, 1), (2, 3))
    assert replace(two, strided=True).members() == ((0, 2), (1, 3))


def test_json_comes_back() -> None:
    assert Case.from_json(CASE.to_json()) == CASE
    assert CASE["shape"] == (1, 64, 128)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": 1, "ranks_per_node": 1}, "at least 2 ranks"),
        ({"ranks_per_node": 3}, "must divide ranks"),
        ({"groups": 0}, "at least 1 group"),
        ({"parameters": (("b", 1), ("a", 2))}, "sorted"),
    ],
)
def test_a_case_that_means_nothing_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CASE, **change)
