"""A gather in which ranks pair up becomes one permute."""

from overlayccl_core.program.kinds import Kind
from tests.rewrites.rules.tried import kinds, payloads, refusal, rewritten, traced

RULE = "permute_what_is_read"
NEXT = "slice_axis(all_gather(x), 0, [12, 24, 36, 0], 12)"


def test_everybody_reads_the_next_rank() -> None:
    new = rewritten(RULE, traced(f'io.write("y", {NEXT})', 12))
    assert kinds(new) == [Kind.COLLECTIVE_PERMUTE]
    assert new.collectives[0].sources == (1, 2, 3, 0)
    assert new.collectives[0].operands[0].kind is Kind.INPUT


def test_one_rank_sends_all_and_nobody_packs_zeros() -> None:
    body = 'io.write("y", index_select(all_gather(x), [[-1] * 12, range(24, 36), [-1] * 12, [-1] * 12]))'
    new = rewritten(RULE, traced(body, 12))
    assert new.collectives[0].sources == (-1, 2, -1, -1)
    assert new.collectives[0].operands[0].kind is Kind.INPUT


def test_parts_of_different_length_and_order() -> None:
    table = "[[14, 12, 12], [-1, 30, -1], [36, -1, 47], [-1, -1, -1]]"
    new = rewritten(RULE, traced(f'io.write("y", index_select(all_gather(x), {table}))', 3))
    assert (new.collectives[0].sources, payloads(new)) == ((1, 2, 3, -1), [2])


def test_an_own_block_is_read_at_home() -> None:
    own = "slice_axis(g, 0, [0, 12, 24, 36], 12)"
    halo = "slice_axis(g, 0, [12, 0, 36, 24], 1)"
    body = f'g = all_gather(x)\nio.write("y", concat([{own}, {halo}]))'
    new = rewritten(RULE, traced(body, 13))
    assert (new.collectives[0].sources, payloads(new)) == ((1, 0, 3, 2), [1])


def test_in_pairs_in_any_member_order() -> None:
    body = 'io.write("y", slice_axis(all_gather(x, 0, ((1, 0), (2, 3))), 0, [0, 12, 12, 0], 12))'
    new = rewritten(RULE, traced(body, 12))
    assert new.collectives[0].sources == (1, 0, 3, 2)


def test_a_rank_is_no_partner_of_itself() -> None:
    new = rewritten(RULE, traced('io.write("y", slice_axis(all_gather(x), 0, [12, 12, 36, 0], 12))', 12))
    assert new.collectives[0].sources == (1, -1, 3, 0)


def test_a_consumer_that_is_no_view_is_refused() -> None:
    body = f'io.write("y", {NEXT})\nio.write("z", cast(cast(all_gather(x), "float16"), "float32"))'
    assert "side conditions" in refusal(RULE, traced(body, {"y": 12, "z": 48}))


def test_labels_stay() -> None:
    new = rewritten(RULE, traced(f'boundary()\nio.write("y", {NEXT})', 12))
    assert [x.label.graph for x in new.collectives] == ["g1"]
