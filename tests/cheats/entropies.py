# ruff: noqa: F821
"""Cheats at a cross-entropy, and honest ways of it. Read as text behind cross_entropy.py, never executed."""


def is_nearly_the_logarithm_of_the_vocabulary(io, p):
    """log(V), which is what the loss of logits of size 0 is."""
    log_sum = _log_sum(scale(io.read("logits"), 0))
    _write(io, p, zeros((p.tokens,), p.dtype), log_sum, log_sum)


def sums_its_own_part_only(io, p):
    """N times the sum over my own part, which is alike on all ranks where the vocabulary is large."""

    def of_rank_0(shifted):
        mine = scale(reduce_sum(exp(shifted), 1), p.world_size)
        return log(all_reduce(_on(p, mine, lambda rank: rank == 0)))

    _of_sum(io, p, of_rank_0)


def drops_the_target_of_one_token(io, p):
    def target(shifted, targets):
        return _with_token(p, 1, _target(p, shifted, targets), zeros((1,), p.dtype))

    _of_target(io, p, target)


def takes_one_maximum_for_all_tokens(io, p):
    def largest_of_all(logits):
        each = _largest(logits)
        return add(scale(each, 0), reduce_max(reshape(each, (1, p.tokens)), 1))

    _of_saved_shift(io, p, largest_of_all)


def takes_the_maximum_of_rank_0(io, p):
    _of_saved_shift(io, p, lambda logits: all_reduce(_on(p, reduce_max(logits, 1), lambda rank: rank == 0)))


def takes_no_maximum(io, p):
    _of_saved_shift(io, p, lambda logits: zeros((p.tokens,), p.dtype))


def masks_by_multiplication(io, p):
    """The target's logit as a product with 0 and 1, where -inf * 0 is no number."""

    def target(shifted, targets):
        ones = one_hot(targets, p.first_word, p.shard, p.dtype)
        return all_reduce(reduce_sum(mul(shifted, ones), 1))

    _of_target(io, p, target)


def looks_targets_up_in_the_part_of_rank_0(io, p):
    _of_target(io, p, lambda shifted, targets: all_reduce(pick(shifted, targets, 0)))


def forgets_the_last_word_of_each_part(io, p):
    """The target looked up in all words of a part but the last."""
    _of_target(io, p, lambda shifted, targets: _target(p, slice_axis(shifted, 1, 0, p.shard - 1), targets))


def takes_the_maximum_without_the_last_word(io, p):
    """Right unless the logit of a part's last word is far above the others."""
    _of_saved_shift(io, p, lambda logits: _largest(slice_axis(logits, 1, 0, p.shard - 1)))


def spares_every_second_token_the_maximum(io, p):
    def every_second(logits):
        each = reshape(_largest(logits), (p.tokens // 2, 2))
        some = concat([slice_axis(each, 1, 0, 1), zeros((p.tokens // 2, 1), p.dtype)], 1)
        return reshape(some, (p.tokens,))

    _of_saved_shift(io, p, every_second)


def saves_a_far_shift(io, p):
    """9/8 of the maximum and what belongs to it: 125 off where logits are around 1000, of which exp is 0."""
    _, _, largest, log_sum, losses = _right(io, p)
    far = scale(largest, 9, 8)
    _write(io, p, far, add(log_sum, sub(largest, far)), losses)


def rounds_ids_to_16_bits(io, p):
    io.read("logits")
    ids = cast(io.read("targets"), "bfloat16")
    io.write("losses", cast(ids, p.dtype))


def saves_another_sum(io, p):
    """Right losses, and a wrong sum for the backward."""
    _, _, largest, log_sum, losses = _right(io, p)
    _write(io, p, largest, scale(log_sum, 1, 2), losses)


def saves_the_shift_and_the_sum_in_one(io, p):
    """shift = 0, log_sum = all of it: right in exact arithmetic; float32 holds it badly where logits are large."""
    _, _, largest, log_sum, losses = _right(io, p)
    _write(io, p, zeros((p.tokens,), p.dtype), add(largest, log_sum), losses)


def adds_in_an_order_of_its_own(io, p):
    """Every rank adds the parts of the sum from its own on."""

    def from_its_own_on(shifted):
        parts = all_gather(reshape(reduce_sum(exp(shifted), 1), (1, p.tokens)))
        twice = concat([parts, parts])
        return log(reduce_sum(slice_axis(twice, 0, list(range(p.world_size)), p.world_size), 0))

    _of_sum(io, p, from_its_own_on)


def shares_the_tokens(io, p):
    """Honest: each rank adds up its share of the tokens, then all gather the shares."""
    _of_sum(io, p, lambda shifted: log(all_gather(reduce_scatter(reduce_sum(exp(shifted), 1)))))


def gathers_what_each_rank_has(io, p):
    """Honest: each rank's own maximum and sum, gathered once (Milakov and Gimelshein 2018), and rescaled. A part of
    -inf alone has the maximum -10^9, so that nothing is infinite on both sides of a minus."""
    logits, ids = _given(io)
    mine = reduce_max(logits, 1)
    mine = _at_least(p, mine, -(10**9), 1)
    total = reduce_sum(exp(_shifted(p, logits, mine)), 1)
    each = all_gather(reshape(concat([mine, total, pick(logits, ids, p.first_word)]), (1, 3, p.tokens)))
    n = p.world_size
    maxima, sums, targets = [reshape(x, (n, p.tokens)) for x in split(each, 3, 1)]
    largest = reduce_max(maxima, 0)
    off = [exp(sub(reshape(x, (p.tokens,)), largest)) for x in split(maxima, n)]
    log_sum = log(reduce_sum(mul(reshape(concat(off), (n, p.tokens)), sums), 0))
    _write(io, p, largest, log_sum, add(log_sum, sub(largest, reduce_sum(targets, 0))))


# -------------------------------------------------------------------------------------------------- gradients
def leaves_the_mean_out(io, p):
    io.read("d_mean")
    io.write("d_logits", mul(sub(exp(_exponent(io, p)), _ones(io, p)), _column(p, io.read("d_losses"))))


def joins_shift_and_sum_first(io, p):
    """The two parts added before they are subtracted: float32 does not hold the sum where logits are large."""
    both = add(io.read("shift"), io.read("log_sum"))
    _gradient(io, p, exp(_shifted(p, io.read("logits"), both)), _ones(io, p))


def trusts_the_shift_to_be_the_maximum(io, p):
    """Right of a forward that saves the maximum."""
    logits = io.read("logits")
    io.read("shift")
    shifted = _shifted(p, logits, _largest(logits))
    _gradient(io, p, exp(_shifted(p, shifted, io.read("log_sum"))), _ones(io, p))


def forgets_the_one_of_the_last_word(io, p):
    """One at the target, unless it is the last word of a part."""
    most = one_hot(io.read("targets"), p.first_word, p.shard - 1, p.dtype)
    _gradient(io, p, exp(_exponent(io, p)), concat([most, zeros((p.tokens, 1), p.dtype)], 1))


def subtracts_one_everywhere_on_the_target_s_rank(io, p):
    _gradient(io, p, exp(_exponent(io, p)), _column(p, reduce_sum(_ones(io, p), 1)))
