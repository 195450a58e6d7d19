"""Replica groups: one object per partition, and what each rank is in it."""

import pytest

from overlayccl_core.program.groups import contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import Rejected


def test_equal_partitions_are_one_object() -> None:
    assert groups_of([(0, 1, 2, 3)], 4) is world(4)
    assert groups_of([[2, 0], [1, 3]], 4) is groups_of([(2, 0), (1, 3)], 4)
    assert groups_of([[0, 2], [1, 3]], 4) is not groups_of([(2, 0), (1, 3)], 4)


def test_place_and_group_of_each_rank() -> None:
    groups = groups_of([[2, 0], [1, 3]], 4)
    assert groups.place.tolist() == [1, 0, 0, 1]
    assert groups.group.tolist() == [0, 1, 0, 1]


def test_the_two_tiers_of_a_cluster() -> None:
    assert contiguous(6, 3).members == ((0, 1, 2), (3, 4, 5))
    assert strided(6, 3).members == ((0, 3), (1, 4), (2, 5))


@pytest.mark.parametrize("members", [[[0, 1]], [[0, 1], [2]], [[0, 1], [1, 2]], [[0, 1], [2, 4]], []])
def test_what_is_no_partition_into_equal_sizes_is_refused(members: list[list[int]]) -> None:
    with pytest.raises(Rejected, match=r"partition .*0\.\.3"):
        groups_of(members, 4)
