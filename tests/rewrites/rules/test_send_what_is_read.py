"""A gather that is read in part becomes an exchange of the parts."""

import pytest

from overlayccl_core.program.kinds import Kind
from tests.rewrites.rules.tried import CROSSED, PAIRS, kinds, payloads, refusal, rewritten, traced

RULE = "send_what_is_read"


@pytest.mark.parametrize("groups", [PAIRS, CROSSED, ((3, 0), (2, 1))])
def test_of_groups_in_any_member_order(groups: tuple[tuple[int, ...], ...]) -> None:
    gathered = f"reshape(all_gather(x, 0, {groups}), (2, 12))"
    body = f'io.write("y", reshape(slice_axis({gathered}, 1, [0, 1, 2, 3], 4), (8,)))'
    new = rewritten(RULE, traced(body, 8))
    assert (kinds(new), payloads(new)) == ([Kind.ALL_TO_ALL], [8])
    assert new.collectives[0].groups.members == groups


def test_what_several_views_read_is_sent_once() -> None:
    body = (
        "g = all_gather(x)\n"
        'io.write("y", slice_axis(g, 0, [12, 24, 36, 0], 2))\n'
        'io.write("z", slice_axis(g, 0, [13, 25, 37, 1], 2))'
    )
    assert payloads(rewritten(RULE, traced(body, {"y": 2, "z": 2}))) == [12]


def test_a_large_own_block_stays_at_home() -> None:
    own = "slice_axis(g, 0, [0, 12, 24, 36], 12)"
    halo = "slice_axis(g, 0, [12, 24, 36, 0], 1)"
    new = rewritten(RULE, traced(f'g = all_gather(x)\nio.write("y", concat([{own}, {halo}]))', 13))
    assert (kinds(new), payloads(new)) == ([Kind.ALL_TO_ALL], [4])


def test_an_output_that_is_read_in_part_too_is_refused() -> None:
    body = 'g = all_gather(x)\nio.write("y", g)\nio.write("z", slice_axis(g, 0, [12, 24, 36, 0], 2))'
    assert "side conditions" in refusal(RULE, traced(body, {"y": 48, "z": 2}))


def test_labels_stay_and_equal_gathers_of_two_graphs_are_two() -> None:
    part = "slice_axis(all_gather(x), 0, [12, 24, 36, 0], 2)"
    body = f'io.write("y", {part})\nboundary()\nio.write("z", {part})\nboundary()'
    new = rewritten(RULE, traced(body, {"y": 2, "z": 2}))
    assert [x.label.graph for x in new.collectives] == ["", "g1"]
