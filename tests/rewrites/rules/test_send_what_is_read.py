"""A gather that is read in part becomes an exchange of the parts."""

import pytest

from overlayccl_core.program.kinds import Kind
from tests.rewrites.rules.tried import CROSSED, PAIRS, kinds, payloads, refusal, rewritten, traced

RULE = "send_what_is_read"


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        # my quarter of every block
        ("slice_axis(reshape(all_gather(x), (4, 12)), 1, [0, 3, 6, 9], 3)", 12),
        # ragged: some pairs exchange nothing, one two elements
        ("index_select(all_gather(x), [[0, 13, 25], [-1, 40, 41], [-1, -1, -1], [0, 0, 30]])", 8),
        # the same elements twice, and in another order
        ("index_select(all_gather(x), [[12, 13, 12], [3, 2, 1], [47, 0, 47], [24, 25, 26]])", 12),
    ],
)
def test_of_a_world(body: str, payload: int) -> None:
    size = 12 if "reshape" in body else 3
    new = rewritten(RULE, traced(f'io.write("y", reshape({body}, ({size},)))', size))
    assert kinds(new) == [Kind.ALL_TO_ALL]
    assert payloads(new) == [payload]


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


def test_where_everybody_reads_its_own_only_nothing_is_sent() -> None:
    program = traced('io.write("y", slice_axis(all_gather(x), 0, [1, 12, 26, 36], 9))', 9)
    assert rewritten(RULE, program).collectives == []


@pytest.mark.parametrize(
    "body",
    [
        'io.write("y", all_gather(x))',  # an output
        'io.write("y", add(all_gather(x), all_gather(x)))',  # a sum reads all of it
        'io.write("y", concat([slice_axis(all_gather(x), 0, [12, 0, 0, 0], 12), x, x, x]))',  # a whole block
    ],
)
def test_no_view_or_a_whole_block_is_refused(body: str) -> None:
    assert "side conditions" in refusal(RULE, traced(body, 48))


def test_an_output_that_is_read_in_part_too_is_refused() -> None:
    body = 'g = all_gather(x)\nio.write("y", g)\nio.write("z", slice_axis(g, 0, [12, 24, 36, 0], 2))'
    assert "side conditions" in refusal(RULE, traced(body, {"y": 48, "z": 2}))


def test_labels_stay_and_equal_gathers_of_two_graphs_are_two() -> None:
    part = "slice_axis(all_gather(x), 0, [12, 24, 36, 0], 2)"
    body = f'io.write("y", {part})\nboundary()\nio.write("z", {part})\nboundary()'
    new = rewritten(RULE, traced(body, {"y": 2, "z": 2}))
    assert [x.label.graph for x in new.collectives] == ["", "g1"]
