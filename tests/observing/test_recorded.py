"""One rank that stands for all: the groups of the others."""

import polars as pl
import pytest

from overlayccl_core.observing.recorded import Call, CapturedRank, partition, rows
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


def test_on_a_device_calls_have_no_times() -> None:
    of = {
        "step": 1,
        "kind": "all_reduce",
        "dtype": "float32",
        "inputs": [[4]],
        "outputs": [[4]],
        "group": "0",
    }
    at = {
        "line": "a.py:1",
        "part": "",
        "issued": 5000,
        "returned": 6000,
        "waits": [(7000, 9000)],
        "done": [8000],
    }
    calls = [Call(**of, **at, uniform=True, device=device) for device in ("cpu", "cuda")]
    rank = CapturedRank(
        rank=0, ranks=2, library="nccl", groups={"0": [0, 1]}, made=[], ddp=[], ends=[0, 10000], calls=calls
    )
    timed, untimed = rows([rank])
    assert [timed[name] for name in ("call_us", "blocked_us", "done_us", "used_us")] == [1.0, 2.0, 8.0, 7.0]
    assert [untimed[name] for name in ("call_us", "blocked_us", "done_us")] == [None] * 3
