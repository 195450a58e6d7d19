# ruff: noqa: B905, RUF005  the language has no stars
"""Attention that is nearly right, and honest ways of it. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    attend,
    collective_permute,
    combine,
    concat,
    exp,
    index_select,
    reduce_sum,
    reshape,
    scale,
    slice_axis,
    sub,
    zeros,
)


def reference(io, p):
    _write(io, _right(io, p))


def attends_to_the_keys_from_the_last_rank_on(io, p):
    """In the other order round the ring: what sees nothing comes first."""
    q, k, v = _read(io)
    whole_k, whole_v = _whole(k), _whole(v)
    positions = p.shard_shape[1]
    parts = [
        attend(
            q,
            slice_axis(whole_k, 1, r * positions, positions),
            slice_axis(whole_v, 1, r * positions, positions),
            p.first_position,
            r * positions,
        )
        for r in range(p.world_size - 1, -1, -1)
    ]
    _write(io, _combined(parts))


def attends_head_by_head(io, p):
    q, k, v = _read(io)
    k, v = _whole(k), _whole(v)
    made = [
        attend(_head(q, h), _head(k, h), _head(v, h), p.first_position, 0) for h in range(p.shard_shape[0])
    ]
    _write(io, [concat([out for out, _ in made]), concat([lse for _, lse in made])])


# --------------------------------------------------------------------------------------------------- masks
def sees_the_next_position(io, p):
    q, k, v = _read(io)
    _write(io, attend(q, _whole(k), _whole(v), [first + 1 for first in p.first_position], 0))


def sees_not_its_own_position(io, p):
    q, k, v = _read(io)
    _write(io, attend(q, _whole(k), _whole(v), [first - 1 for first in p.first_position], 0))


def sees_everything(io, p):
    q, k, v = _read(io)
    _write(io, attend(q, _whole(k), _whole(v), p.sequence, 0))


def sees_the_next_position_on_the_last_rank_only(io, p):
    """Which nothing comes after, but its own."""
    q, k, v = _read(io)
    last = p.world_size - 1
    firsts = [p.first_position[r] + (1 if r == last else 0) for r in range(p.world_size)]
    _write(io, attend(q, _whole(k), _whole(v), firsts, 0))


# --------------------------------------------------------------------------------------------------- parts
def leaves_the_last_part_out(io, p):
    q, k, v = _read(io)
    _write(io, _combined(_round(p, q, k, v, 0)[:-1]))


def takes_a_part_twice(io, p):
    q, k, v = _read(io)
    parts = _round(p, q, k, v, 0)
    _write(io, _combined(parts + parts[1:2]))


def has_a_part_at_the_next_place(io, p):
    q, k, v = _read(io)
    _write(io, _combined(_round(p, q, k, v, 1)))


def adds_parts_without_their_weights(io, p):
    """The mean of what two parts give, with the right lse."""
    q, k, v = _read(io)
    found = _round(p, q, k, v, 0)
    lse = _combined(found)[1]
    out = reduce_sum(concat([reshape(part[0], (1, p.heads, -1, p.head_dim)) for part in found]), 0)
    _write(io, [scale(out, 1, p.world_size), lse])


def combines_with_the_lse_of_another(io, p):
    q, k, v = _read(io)
    parts = _round(p, q, k, v, 0)
    _write(io, _combined([parts[0], [parts[1][0], parts[2][1]], [parts[2][0], parts[1][1]]] + parts[3:]))


def saves_the_lse_of_its_own_part(io, p):
    q, k, v = _read(io)
    parts = _round(p, q, k, v, 0)
    _write(io, [_combined(parts)[0], parts[0][1]])


def saves_no_lse(io, p):
    q, k, v = _read(io)
    _write(io, [_combined(_round(p, q, k, v, 0))[0], zeros((p.heads, p.shard_shape[1]), p.dtype)])


# --------------------------------------------------------------------------------------------------- heads
def exchanges_two_heads_of_the_keys(io, p):
    q, k, v = _read(io)
    order = [1, 0] + list(range(2, p.heads))
    _write(io, attend(q, index_select(_whole(k), order), _whole(v), p.first_position, 0))


def exchanges_two_values_of_the_last_head(io, p):
    q, k, v = _read(io)
    v = _whole(v)
    others, last = slice_axis(v, 0, 0, p.heads - 1), slice_axis(v, 0, p.heads - 1, 1)
    order = [1, 0] + list(range(2, p.sequence))
    _write(io, attend(q, _whole(k), concat([others, index_select(last, order, 1)]), p.first_position, 0))


def leaves_rank_0_out_for_the_last_head(io, p):
    q, k, v = _read(io)
    k, v = _whole(k), _whole(v)
    positions, last = p.shard_shape[1], p.heads - 1
    q0, k0, v0 = [slice_axis(x, 0, 0, last) for x in (q, k, v)]
    others = attend(q0, k0, v0, p.first_position, 0)
    behind = [slice_axis(_head(x, last), 1, positions, p.sequence - positions) for x in (k, v)]
    mine = attend(_head(q, last), behind[0], behind[1], p.first_position, positions)
    _write(io, [concat([x, y]) for x, y in zip(others, mine)])


# --------------------------------------------------------------------------------------------------- sizes
def doubles_the_scores(io, p):
    q, k, v = _read(io)
    _write(io, attend(scale(q, 2), _whole(k), _whole(v), p.first_position, 0))


def scales_the_scores(io, p):
    q, k, v = _read(io)
    _write(io, attend(scale(q, 10**8 + 1, 10**8), _whole(k), _whole(v), p.first_position, 0))


def scales_the_result(io, p):
    out, lse = _right(io, p)
    _write(io, [scale(out, 10**8 + 1, 10**8), lse])


def adds_a_trace_of_the_next_head(io, p):
    out, lse = _right(io, p)
    _write(io, [add(out, scale(_of_the_next_head(p, out), 1, 10**10)), lse])


def adds_a_trace_to_the_scores(io, p):
    """A millionth of the next key."""
    q, k, v = _read(io)
    k = _whole(k)
    order = list(range(1, p.sequence)) + [0]
    _write(io, attend(q, add(k, scale(index_select(k, order, 1), 1, 10**6)), _whole(v), p.first_position, 0))


def adds_a_trace_of_what_is_behind(io, p):
    q, k, v = _read(io)
    k, v = _whole(k), _whole(v)
    out, lse = attend(q, k, v, p.first_position, 0)
    everything = attend(q, k, v, p.sequence, 0)[0]
    _write(io, [add(out, scale(sub(everything, out), 1, 10**10)), lse])


# --------------------------------------------------------------------------------------------------- infinities
def adds_zero_times_the_next_head(io, p):
    """Which is NaN where that is infinite."""
    out, lse = _right(io, p)
    _write(io, [add(out, scale(_of_the_next_head(p, out), 0)), lse])


def adds_the_next_head_s_lse_less_itself(io, p):
    out, lse = _right(io, p)
    other = _of_the_next_head(p, lse)
    _write(io, [out, add(lse, sub(other, other))])


def combines_with_the_next_head_unseen(io, p):
    q, k, v = _read(io)
    out, lse = attend(q, _whole(k), _whole(v), p.first_position, 0)
    unseen = attend(q, _of_the_next_head(p, k), _of_the_next_head(p, v), 0, p.sequence)
    _write(io, combine(out, lse, unseen[0], unseen[1]))


# --------------------------------------------------------------------------------------------------- digits
def rounds_the_queries(io, p):
    q, k, v = _read(io)
    _write(io, attend(_rounded(q), _whole(k), _whole(v), p.first_position, 0))


def rounds_the_result(io, p):
    out, lse = _right(io, p)
    _write(io, [_rounded(out), lse])


def rounds_the_lse(io, p):
    out, lse = _right(io, p)
    _write(io, [out, _rounded(lse)])


def takes_exponentials_without_a_maximum(io, p):
    """Of the lse, which is no operation of attention's."""
    out, lse = _right(io, p)
    _write(io, [out, sub(lse, sub(exp(lse), exp(lse)))])


def takes_the_largest_of_the_ranks(io, p):
    out, lse = _right(io, p)
    _write(io, [add(out, scale(all_reduce(out, "max"), 1, 10**12)), lse])


# --------------------------------------------------------------------------------------------------- pieces
def _read(io):
    return [io.read(name) for name in ("q", "k", "v")]


def _right(io, p):
    q, k, v = _read(io)
    return attend(q, _whole(k), _whole(v), p.first_position, 0)


def _write(io, found):
    io.write("out", found[0])
    io.write("lse", found[1])


def _whole(x):
    return all_gather(x, 1)


def _head(x, h):
    return slice_axis(x, 0, h, 1)


def _of_the_next_head(p, x):
    return index_select(x, list(range(1, p.heads)) + [0])


def _rounded(x):
    """Less the digits that no sum with a thousand times as much keeps."""
    return sub(add(x, scale(x, 1000)), scale(x, 1000))


def _handed_on(p, x):
    return collective_permute(x, [(r, (r + 1) % p.world_size) for r in range(p.world_size)])


def _round(p, q, k, v, late):
    """What each rank finds on the way round; late: places between a part and where it is said to stand."""
    found = []
    for distance in range(p.world_size):
        first = [p.first_position[(r - distance - late) % p.world_size] for r in range(p.world_size)]
        found += [attend(q, k, v, p.first_position, first)]
        k, v = _handed_on(p, k), _handed_on(p, v)
    return found


def _combined(parts):
    found = parts[0]
    for part in parts[1:]:
        found = combine(found[0], found[1], part[0], part[1])
    return found
