"""A gather whose readers fall apart into groups of equal size is over those groups."""

import pytest

from overlayccl_core.program.groups import contiguous, strided
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.program import Program
from tests.rewrites.rules.tried import kinds, refusal, rewritten, traced

RULE = "narrow_groups"


def reading(starts: list[int], length: int = 12, ranks: int = 4, groups: object = None) -> Program:
    body = f'io.write("y", slice_axis(all_gather(x, 0, {groups}), 0, {starts}, {length}))'
    return traced(body, length, ranks=ranks, ranks_per_node=ranks)


@pytest.mark.parametrize(
    ("starts", "length", "expected"),
    [
        ([12, 0, 36, 24], 12, contiguous(4, 2)),
        ([0, 0, 24, 24], 24, contiguous(4, 2)),
        ([24, 36, 0, 12], 12, strided(4, 2)),
        ([12, 12, 24, 24], 12, contiguous(4, 2)),  # one way only
    ],
)
def test_the_groups_are_the_components(starts: list[int], length: int, expected: object) -> None:
    new = rewritten(RULE, reading(starts, length))
    assert kinds(new) == [Kind.ALL_GATHER]
    assert new.collectives[0].groups is expected


def test_a_chain_of_readers_is_one_component() -> None:
    starts = [12, 24, 24, 48, 60, 60]  # 0 <- 1 <- 2 and 3 <- 4 <- 5
    assert rewritten(RULE, reading(starts, ranks=6)).collectives[0].groups is contiguous(6, 3)


def test_members_keep_the_order_of_the_group() -> None:
    program = reading([12, 36, 0, 24], groups=((3, 1, 2, 0),))  # 0 and 1 read one another, 2 and 3
    assert rewritten(RULE, program).collectives[0].groups.members == ((3, 2), (1, 0))


@pytest.mark.parametrize(
    "starts",
    [
        [12, 24, 36, 0],  # a ring: one component
        [12, 24, 24, 36],  # 3 and 1
        [0, 12, 24, 36],  # everybody its own: groups of one
    ],
)
def test_other_components_are_refused(starts: list[int]) -> None:
    assert "side conditions" in refusal(RULE, reading(starts))


def test_components_of_two_and_of_three_are_refused() -> None:
    assert "side conditions" in refusal(RULE, reading([12, 0, 36, 48, 48], ranks=5))


def test_groups_of_the_size_of_the_components_are_refused() -> None:
    assert "side conditions" in refusal(RULE, reading([12, 0, 12, 0], groups=((0, 1), (2, 3))))


def test_a_gather_that_is_no_view_only_is_refused() -> None:
    body = 'g = all_gather(x)\nio.write("y", slice_axis(g, 0, [12, 0, 36, 24], 12))\nio.write("z", g)'
    assert "side conditions" in refusal(RULE, traced(body, {"y": 12, "z": 48}))
