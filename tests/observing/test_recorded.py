"""One rank that stands for all: the groups of the others."""

import polars as pl
import pytest

from overlayccl_core.observing.recorded import partition
from overlayccl_core.observing.regions import cut
from overlayccl_core.tables.captured import CaptureSource
from tests.observing.captured_rows import step, summed

ROWS, COLUMNS = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def test_siblings_of_a_group_are_those_made_beside_it() -> None:
    made = [[0, 1, 2, 3], *ROWS, *COLUMNS]
    assert partition([2, 3], made, 4) == [0, 1, 2, 3]
    assert partition([1, 3], made, 4) == [0, 2, 1, 3]
    assert partition([0, 1, 2, 3], [], 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("made", [[[0, 1]], [[0, 1], [1, 2]], [[0, 1], [0, 2], [2, 3]], [[0, 1], [2]]])
def test_siblings_that_do_not_make_up_all_ranks_are_not_known(made: list[list[int]]) -> None:
    assert partition([0, 1], made, 4) is None


def test_other_ranks_call_alike_in_their_own_groups() -> None:
    calls = [summed(8, groups=COLUMNS, partition=[0, 2, 1, 3]), summed(8, groups=ROWS)]
    alone = step(calls).filter(rank=1).with_columns(source=pl.lit(CaptureSource.FAKE.value))
    (region,), (fence,) = cut(alone)
    assert region.groups == ((0, 2), (1, 3))
    assert (fence.call, fence.why) == (1, "its groups are no partition of the ranks")
