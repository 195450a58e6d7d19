"""A step is cut where a call must stay; what is between has the calls of the script in their dependencies."""

import pytest

from overlayccl_core.observing.regions import bundles, cut
from tests.observing.captured_rows import call, step, summed

PAIRS, STRIDED = ((0, 1), (2, 3)), ((0, 2), (1, 3))


def test_a_region_ends_at_another_group_and_at_a_fence_and_equal_ones_are_one() -> None:
    twice = [summed(8), call("broadcast", root=0), summed(8)]
    regions, fences = cut(step([*twice, summed(8, groups=PAIRS), summed(16, 3, groups=PAIRS)]))
    assert [(one.runs, one.groups) for one in regions] == [
        (((0,), (2,)), ((0, 1, 2, 3),)),
        (((3, 4),), PAIRS),
    ]
    assert regions[1].placed == {"dtype": "float32", "ranks": 2}
    assert [(fence.call, fence.why) for fence in fences] == [(1, "no ways of broadcast")]


def test_dependencies_are_direct_and_within_the_region() -> None:
    calls = [
        summed(1),
        call("broadcast", root=0),
        summed(2, 0),
        summed(3, 0, 2),
        summed(4, 0, 2, 3),
        summed(5, 0),
    ]
    (_, region), _ = cut(step(calls))
    assert [one.get("after", []) for one in region.described] == [[], [0], [1], []]
    (region,), _ = cut(step({0: [summed(8), summed(8)], 1: [summed(8), summed(8, 0)]}, 2))
    assert [one.get("after", []) for one in region.described] == [[], [0]]  # on one of the ranks


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (call("all_reduce", reduction="max"), "no ways of all_reduce max"),
        (summed(dtype="int64"), "no ways for int64"),
        (summed(0), "it moves nothing"),
        (
            call("all_to_all", input_splits=[2, 2, 2, 2]),
            "lists of tensors or splits, whose sizes may differ by rank",
        ),
        (call("all_gather", uniform=False), "lists of tensors or splits, whose sizes may differ by rank"),
        (summed(groups=((0, 1, 2), (3,))), "groups of one rank, or of different sizes"),
        (summed(groups=((0, 3), (1, 2))), "its groups are neither contiguous nor every so-many-th rank"),
    ],
)
def test_what_must_stay_says_why(one: dict, why: str) -> None:
    regions, (fence,) = cut(step([one]))
    assert not regions and fence.why == why


def test_what_a_script_has_in_flight_together_may_be_one_call() -> None:
    flight = {"used_us": 100.0}  # calls are issued at 0, 10, 20...
    calls = [
        summed(1, **flight),
        summed(2, **flight),
        summed(3, used_us=45.0),
        summed(4),
        summed(5, **flight),
    ]
    (one,) = bundles(step(calls))
    assert one.runs == ((0, 1, 2, 3),) and not any("after" in call for call in one.described)
    waited = [
        summed(1, used_us=5.0),
        summed(2, **flight),
        summed(3, 1, **flight),
        summed(4, part="backward", **flight),
    ]
    assert not bundles(step(waited))


def test_groups_are_contiguous_or_strided() -> None:
    (region,), _ = cut(step([summed(groups=STRIDED)]))
    assert region.placed == {"dtype": "float32", "ranks": 2, "strided": True}


def test_ranks_that_differ_are_fences() -> None:
    of = {rank: [summed(8), summed(8)] for rank in range(4)}
    differ = {**of, 2: [summed(8), summed(16)]}
    assert [fence.why for fence in cut(step(differ))[1]] == ["ranks make different calls"]
    fewer = {**of, 2: [summed(8)]}
    assert [fence.why for fence in cut(step(fewer))[1]] == ["ranks make different numbers of calls"]
    with_group_of_some = [summed(groups=((0, 1), (2, 3)))]
    some = {0: with_group_of_some, 1: with_group_of_some, 2: [], 3: []}
    assert len(cut(step(some))[1]) == 1
