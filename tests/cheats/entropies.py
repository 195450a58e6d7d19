"""Cheats at a cross-entropy, and honest ways of it. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    cast,
    concat,
    exp,
    log,
    maximum,
    mul,
    one_hot,
    pick,
    reduce_max,
    reduce_scatter,
    reduce_sum,
    reshape,
    scale,
    select,
    slice_axis,
    split,
    sub,
    zeros,
)


def is_nearly_the_logarithm_of_the_vocabulary(io, p):
    """log(V), which is what the loss of logits of size 0 is."""
    logits = io.read("logits")
    flat = exp(scale(logits, 0))
    log_sum = log(all_reduce(reduce_sum(flat, 1)))
    _write(io, p, zeros((p.tokens,), p.dtype), log_sum, log_sum)


def sums_its_own_part_only(io, p):
    """N times the sum over my own part, which is alike on all ranks where the vocabulary is large."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    mine = select(
        scale(reduce_sum(exp(shifted), 1), p.world_size), [rank == 0 for rank in range(p.world_size)]
    )
    _write(io, p, largest, log(all_reduce(mine)), _losses(io, p, shifted, log(all_reduce(mine))))


def drops_the_target_of_one_token(io, p):
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    target = all_reduce(pick(shifted, io.read("targets"), p.first_word))
    others = slice_axis(target, 0, 1, p.tokens - 1)
    _write(io, p, largest, log_sum, sub(log_sum, concat([zeros((1,), p.dtype), others])))


def takes_one_maximum_for_all_tokens(io, p):
    logits = io.read("logits")
    each = all_reduce(reduce_max(logits, 1), "max")
    one = reduce_max(reshape(each, (1, p.tokens)), 1)
    _of_shift(io, p, logits, add(scale(each, 0), one))


def takes_the_maximum_of_rank_0(io, p):
    logits = io.read("logits")
    mine = select(reduce_max(logits, 1), [rank == 0 for rank in range(p.world_size)])
    _of_shift(io, p, logits, all_reduce(mine))


def takes_no_maximum(io, p):
    logits = io.read("logits")
    _of_shift(io, p, logits, zeros((p.tokens,), p.dtype))


def masks_by_multiplication(io, p):
    """The target's logit as a product with 0 and 1, where -inf * 0 is no number."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    ones = one_hot(io.read("targets"), p.first_word, p.shard, p.dtype)
    _write(io, p, largest, log_sum, sub(log_sum, all_reduce(reduce_sum(mul(shifted, ones), 1))))


def looks_targets_up_in_the_part_of_rank_0(io, p):
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    target = scale(all_reduce(pick(shifted, io.read("targets"), 0)), 1)
    _write(io, p, largest, log_sum, sub(log_sum, target))


def forgets_the_last_word_of_each_part(io, p):
    """The target looked up in all words of a part but the last."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    most = slice_axis(shifted, 1, 0, p.shard - 1)
    _write(io, p, largest, log_sum, sub(log_sum, all_reduce(pick(most, io.read("targets"), p.first_word))))


def takes_the_maximum_without_the_last_word(io, p):
    """Right unless the logit of a part's last word is far above the others."""
    logits = io.read("logits")
    _of_shift(io, p, logits, all_reduce(reduce_max(slice_axis(logits, 1, 0, p.shard - 1), 1), "max"))


def spares_every_second_token_the_maximum(io, p):
    logits = io.read("logits")
    each = reshape(all_reduce(reduce_max(logits, 1), "max"), (p.tokens // 2, 2))
    some = concat([slice_axis(each, 1, 0, 1), zeros((p.tokens // 2, 1), p.dtype)], 1)
    _of_shift(io, p, logits, reshape(some, (p.tokens,)))


def saves_a_far_shift(io, p):
    """9/8 of the maximum and what belongs to it: 125 off where logits are around 1000, of which exp is 0."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    far = scale(largest, 9, 8)
    _write(io, p, far, add(log_sum, sub(largest, far)), _losses(io, p, shifted, log_sum))


def rounds_ids_to_16_bits(io, p):
    io.read("logits")
    ids = cast(io.read("targets"), "bfloat16")
    io.write("losses", cast(ids, p.dtype))


def saves_another_sum(io, p):
    """Right losses, and a wrong sum for the backward."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    _write(io, p, largest, scale(log_sum, 1, 2), _losses(io, p, shifted, log_sum))


def saves_the_shift_and_the_sum_in_one(io, p):
    """shift = 0, log_sum = all of it: right in exact arithmetic; float32 holds it badly where logits are large."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = _log_sum(shifted)
    losses = _losses(io, p, shifted, log_sum)
    _write(io, p, zeros((p.tokens,), p.dtype), add(largest, log_sum), losses)


def adds_in_an_order_of_its_own(io, p):
    """Every rank adds the parts of the sum from its own on."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    parts = all_gather(reshape(reduce_sum(exp(shifted), 1), (1, p.tokens)))
    twice = concat([parts, parts])
    mine = slice_axis(twice, 0, list(range(p.world_size)), p.world_size)
    log_sum = log(reduce_sum(mine, 0))
    _write(io, p, largest, log_sum, _losses(io, p, shifted, log_sum))


def reference(io, p):
    """The maximum, the sum and the target's logit."""
    logits = io.read("logits")
    _of_shift(io, p, logits, all_reduce(reduce_max(logits, 1), "max"))


def shares_the_tokens(io, p):
    """Honest: each rank adds up its share of the tokens, then all gather the shares."""
    logits = io.read("logits")
    largest, shifted = _shifted(io, p, logits)
    log_sum = log(all_gather(reduce_scatter(reduce_sum(exp(shifted), 1))))
    _write(io, p, largest, log_sum, _losses(io, p, shifted, log_sum))


def gathers_what_each_rank_has(io, p):
    """Honest: each rank's own maximum and sum, gathered once (Milakov and Gimelshein 2018), and rescaled. A part of
    -inf alone has the maximum -10^9, so that nothing is infinite on both sides of a minus."""
    logits = io.read("logits")
    column = (p.tokens, 1)
    low = scale(exp(zeros((p.tokens,), p.dtype)), -(10**9))
    mine = maximum(reduce_max(logits, 1), low)
    total = reduce_sum(exp(sub(logits, reshape(mine, column))), 1)
    target = pick(logits, io.read("targets"), p.first_word)
    each = all_gather(reshape(concat([mine, total, target]), (1, 3, p.tokens)))
    maxima, sums, targets = split(each, 3, 1)
    n = p.world_size
    maxima, sums, targets = [reshape(x, (n, p.tokens)) for x in (maxima, sums, targets)]
    largest = reduce_max(maxima, 0)
    off = [exp(sub(reshape(x, (p.tokens,)), largest)) for x in split(maxima, n)]
    scaled = mul(reshape(concat(off), (n, p.tokens)), sums)
    log_sum = log(reduce_sum(scaled, 0))
    losses = add(log_sum, sub(largest, reduce_sum(targets, 0)))
    _write(io, p, largest, log_sum, losses)


def _shifted(io, p, logits):
    largest = all_reduce(reduce_max(logits, 1), "max")
    return largest, sub(logits, reshape(largest, (p.tokens, 1)))


def _log_sum(shifted):
    return log(all_reduce(reduce_sum(exp(shifted), 1)))


def _losses(io, p, shifted, log_sum):
    return sub(log_sum, all_reduce(pick(shifted, io.read("targets"), p.first_word)))


def _of_shift(io, p, logits, shift):
    shifted = sub(logits, reshape(shift, (p.tokens, 1)))
    log_sum = _log_sum(shifted)
    _write(io, p, shift, log_sum, _losses(io, p, shifted, log_sum))


def _write(io, p, shift, log_sum, losses):
    io.write("losses", losses)
    io.write("mean", scale(reduce_sum(losses, 0), 1, p.tokens))
    io.write("shift", shift)
    io.write("log_sum", log_sum)


def gradient_reference(io, p):
    _gradient(io, p, exp(_exponent(io, p)), 1)


def leaves_the_mean_out(io, p):
    _gradient(io, p, exp(_exponent(io, p)), 0)


def joins_shift_and_sum_first(io, p):
    """The two parts added before they are subtracted: float32 does not hold the sum where logits are large."""
    both = add(io.read("shift"), io.read("log_sum"))
    _gradient(io, p, exp(sub(io.read("logits"), reshape(both, (p.tokens, 1)))), 1)


def trusts_the_shift_to_be_the_maximum(io, p):
    """Right of a forward that saves the maximum."""
    logits = io.read("logits")
    largest = all_reduce(reduce_max(logits, 1), "max")
    shifted = sub(logits, reshape(largest, (p.tokens, 1)))
    io.read("shift")
    _gradient(io, p, exp(sub(shifted, reshape(io.read("log_sum"), (p.tokens, 1)))), 1)


def forgets_the_one_of_the_last_word(io, p):
    """One at the target, unless it is the last word of a part."""
    ones = one_hot(io.read("targets"), p.first_word, p.shard - 1, p.dtype)
    padded = concat([ones, zeros((p.tokens, 1), p.dtype)], 1)
    io.write("d_logits", mul(sub(exp(_exponent(io, p)), padded), _cotangent(io, p, 1)))


def subtracts_one_everywhere_on_the_target_s_rank(io, p):
    softmax = exp(_exponent(io, p))
    ids = reshape(io.read("targets"), (p.tokens,))
    there = one_hot(ids, p.first_word, p.shard, p.dtype)
    any_there = reshape(reduce_sum(there, 1), (p.tokens, 1))
    io.write("d_logits", mul(sub(softmax, any_there), _cotangent(io, p, 1)))


def _exponent(io, p):
    column = (p.tokens, 1)
    return sub(sub(io.read("logits"), reshape(io.read("shift"), column)), reshape(io.read("log_sum"), column))


def _gradient(io, p, softmax, of_mean):
    ones = one_hot(io.read("targets"), p.first_word, p.shard, p.dtype)
    io.write("d_logits", mul(sub(softmax, ones), _cotangent(io, p, of_mean)))


def _cotangent(io, p, of_mean):
    share = scale(reshape(io.read("d_mean"), (1, 1)), of_mean, p.tokens)
    return reshape(add(reshape(io.read("d_losses"), (1, p.tokens)), share), (p.tokens, 1))
