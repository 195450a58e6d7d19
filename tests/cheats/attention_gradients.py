# ruff: noqa: RUF005, RUF059  the language has no stars; some values nobody reads
"""Backwards of attention that are nearly right, and honest ones. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    attend,
    attend_backward,
    collective_permute,
    concat,
    index_select,
    reduce_scatter,
    scale,
    select,
    slice_axis,
    sub,
)


def gradient_reference(io, p):
    _backward(io, p, 0, [])


def goes_back_part_by_part(io, p):
    """Sums of the gradients of parts, all of which are here."""
    q, k, v, out, lse, d_out = _given(io)
    positions, whole_k, whole_v = p.shard_shape[1], _whole(k), _whole(v)
    d_q, others = [], []
    for r in range(p.world_size):
        part = [slice_axis(x, 1, r * positions, positions) for x in (whole_k, whole_v)]
        made = attend_backward(q, part[0], part[1], out, lse, d_out, p.first_position, r * positions)
        d_q = [add(d_q[0], made[0])] if d_q else made[:1]
        others += [made[1:]]
    io.write("d_q", d_q[0])
    for i, name in enumerate(("d_k", "d_v")):
        io.write(name, reduce_scatter(concat([part[i] for part in others], 1), 1))


def sees_the_next_position_backward(io, p):
    _backward(io, p, 1, [])


def keeps_its_own_part_of_the_gradients(io, p):
    """Nothing is summed over the ranks."""
    q, k, v, out, lse, d_out = _given(io)
    d_q, d_k, d_v = attend_backward(q, _whole(k), _whole(v), out, lse, d_out, p.first_position, 0)
    io.write("d_q", d_q)
    for name, x in (("d_k", d_k), ("d_v", d_v)):
        io.write(name, slice_axis(x, 1, p.first_position, p.shard_shape[1]))


def leaves_the_last_rank_s_gradients_out(io, p):
    _backward(io, p, 0, [1] * (p.world_size - 1) + [0])


def takes_the_cotangent_for_the_result(io, p):
    q, k, v, out, lse, d_out = _given(io)
    _gradients(io, p, q, k, v, d_out, lse, d_out)


def takes_no_result(io, p):
    """As if no score had a part in the sum of the weights."""
    q, k, v, out, lse, d_out = _given(io)
    _gradients(io, p, q, k, v, scale(out, 0), lse, d_out)


def takes_the_lse_of_its_own_part(io, p):
    q, k, v, out, lse, d_out = _given(io)
    _gradients(io, p, q, k, v, out, attend(q, k, v, 0, 0)[1], d_out)


def exchanges_the_gradients_of_keys_and_values(io, p):
    q, k, v, out, lse, d_out = _given(io)
    d_q, d_k, d_v = attend_backward(q, _whole(k), _whole(v), out, lse, d_out, p.first_position, 0)
    io.write("d_q", d_q)
    io.write("d_v", reduce_scatter(d_k, 1))
    io.write("d_k", reduce_scatter(d_v, 1))


def hands_gradients_to_the_next_rank(io, p):
    """The last step, which brings them home, is missing."""
    q, k, v, out, lse, d_out = _given(io)
    d_q, d_k, d_v = attend_backward(q, _whole(k), _whole(v), out, lse, d_out, p.first_position, 0)
    io.write("d_q", d_q)
    for name, x in (("d_k", d_k), ("d_v", d_v)):
        io.write(name, _handed_on(p, reduce_scatter(x, 1)))


def adds_a_trace_of_the_next_head_s_gradient(io, p):
    q, k, v, out, lse, d_out = _given(io)
    _gradients(io, p, q, k, v, out, lse, add(d_out, scale(_of_the_next_head(p, d_out), 1, 10**10)))


def scales_the_gradient_of_the_keys(io, p):
    _changed(io, p, 1, lambda d_k: scale(d_k, 10**7 + 1, 10**7))


def scales_the_gradient_of_the_values(io, p):
    _changed(io, p, 2, lambda d_v: scale(d_v, 10**7 + 1, 10**7))


def adds_a_trace_of_the_position_before(io, p):
    """Of its cotangent."""
    q, k, v, out, lse, d_out = _given(io)
    positions = p.shard_shape[1]
    before = index_select(d_out, [positions - 1] + list(range(positions - 1)), 1)
    _gradients(io, p, q, k, v, out, lse, add(d_out, scale(before, 1, 10**10)))


def adds_zero_times_the_next_head_s_gradient(io, p):
    _changed(io, p, 1, lambda d_k: add(d_k, scale(_of_the_next_head(p, d_k), 0)))


def rounds_the_queries_backward(io, p):
    q, k, v, out, lse, d_out = _given(io)
    _gradients(io, p, _rounded(q), k, v, out, lse, d_out)


def rounds_the_gradient_of_the_keys(io, p):
    _changed(io, p, 1, _rounded)


def rounds_the_gradient_of_the_values(io, p):
    """But of the first: the first query's cotangent may be far larger than the others."""
    others = p.sequence - 1
    _changed(io, p, 2, lambda x: concat([slice_axis(x, 1, 0, 1), _rounded(slice_axis(x, 1, 1, others))], 1))


# --------------------------------------------------------------------------------------------------- pieces
def _given(io):
    return [io.read(name) for name in ("q", "k", "v", "out", "lse", "d_out")]


def _whole(x):
    return all_gather(x, 1)


def _of_the_next_head(p, x):
    return index_select(x, list(range(1, p.heads)) + [0])


def _rounded(x):
    """Less the digits that no sum with a thousand times as much keeps."""
    return sub(add(x, scale(x, 1000)), scale(x, 1000))


def _handed_on(p, x):
    return collective_permute(x, [(r, (r + 1) % p.world_size) for r in range(p.world_size)])


def _backward(io, p, ahead, mask):
    q, k, v, out, lse, d_out = _given(io)
    _gradients_of(io, p, q, k, v, out, lse, d_out, ahead, mask)


def _gradients(io, p, q, k, v, out, lse, d_out):
    _gradients_of(io, p, q, k, v, out, lse, d_out, 0, [])


def _gradients_of(io, p, q, k, v, out, lse, d_out, ahead, mask):
    first = [first + ahead for first in p.first_position]
    d_q, d_k, d_v = attend_backward(q, _whole(k), _whole(v), out, lse, d_out, first, 0)
    io.write("d_q", d_q)
    for name, x in (("d_k", d_k), ("d_v", d_v)):
        io.write(name, reduce_scatter(select(x, mask) if mask else x, 1))


def _changed(io, p, which, change):
    """One of the gradients is not as it should be."""
    q, k, v, out, lse, d_out = _given(io)
    made = attend_backward(q, _whole(k), _whole(v), out, lse, d_out, p.first_position, 0)
    for i, name in enumerate(("d_q", "d_k", "d_v")):
        x = change(made[i]) if i == which else made[i]
        io.write(name, reduce_scatter(x, 1) if i else x)
