"""Permutes of one value become one exchange; what was handed on comes directly."""

from overlayccl_core.program.kinds import Kind
from tests.rewrites.rules.tried import kinds, payloads, refusal, rewritten, traced

ONWARD, BACK = [(r, (r + 1) % 4) for r in range(4)], [(r, (r - 1) % 4) for r in range(4)]
SWAPPED = [(0, 1), (1, 0), (2, 3), (3, 2)]


def test_edges_of_a_row_go_to_both_neighbours_in_one_exchange() -> None:
    body = (
        f"left = collective_permute(slice_axis(x, 0, 10, 2), {ONWARD})\n"
        f"right = collective_permute(slice_axis(x, 0, 0, 2), {BACK})\n"
        'io.write("y", concat([left, x, right]))'
    )
    new = rewritten("exchange_of_permutes", traced(body, 16))
    assert (kinds(new), payloads(new)) == ([Kind.ALL_TO_ALL], [8])  # the row itself is no part of it


def test_pairs_exchange_among_themselves() -> None:
    body = (
        f"a = collective_permute(slice_axis(x, 0, 0, 3), {SWAPPED})\n"
        f"b = collective_permute(slice_axis(x, 0, 3, 3), {SWAPPED})\n"
        'io.write("y", concat([a, b]))'
    )
    new = rewritten("exchange_of_permutes", traced(body, 6))
    assert [x.groups.members for x in new.collectives] == [((0, 1), (2, 3))]


def test_one_permute_and_permutes_of_different_values_stay() -> None:
    one = f'io.write("y", collective_permute(x, {ONWARD}))'
    assert "side conditions" in refusal("exchange_of_permutes", traced(one, 12))
    two = f'io.write("y", add(collective_permute(x, {ONWARD}), collective_permute(e, {BACK})))'
    assert "side conditions" in refusal("exchange_of_permutes", traced(two, 12))


def test_what_was_handed_on_comes_directly() -> None:
    body = f'io.write("y", collective_permute(collective_permute(x, {ONWARD}), {ONWARD}))'
    new = rewritten("permute_directly", traced(body, 12), "", "collective_permute:other:1")
    (x,) = new.collectives
    assert x.sources == (2, 3, 0, 1)


def test_what_comes_through_another_graph_stays() -> None:
    body = f'a = collective_permute(x, {ONWARD})\nboundary()\nio.write("y", collective_permute(a, {ONWARD}))'
    assert "side conditions" in refusal(
        "permute_directly", traced(body, 12), "", "collective_permute:other:1"
    )
