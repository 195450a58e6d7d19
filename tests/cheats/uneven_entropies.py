"""Cross-entropies that are right but for one token, some words or some sizes of logits, and odd ones that are
right. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    collective_permute,
    concat,
    exp,
    log,
    maximum,
    mul,
    one_hot,
    permute_dims,
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


# ------------------------------------------------------------------------------------------------ some tokens
def spares_token_3_the_maximum(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    shift = _with_token(p, 3, largest, zeros((1,), p.dtype))
    _of_shift(io, p, logits, targets, shift, shift)


def spares_token_5_the_maximum_and_saves_it(io, p):
    """What is saved is right: the losses alone are not."""
    logits, targets = _given(io)
    largest = _largest(logits)
    _of_shift(io, p, logits, targets, _with_token(p, 5, largest, zeros((1,), p.dtype)), largest)


def gives_token_2_the_maximum_of_rank_0(io, p):
    logits, targets = _given(io)
    mine = select(slice_axis(reduce_max(logits, 1), 0, 2, 1), [rank == 0 for rank in range(p.world_size)])
    _of_shift(io, p, logits, targets, _with_token(p, 2, _largest(logits), all_reduce(mine)), _largest(logits))


def gives_token_4_the_maximum_without_a_middle_word(io, p):
    logits, targets = _given(io)
    _of_shift(
        io,
        p,
        logits,
        targets,
        _with_token(p, 4, _largest(logits), _largest_without(p, slice_axis(logits, 0, 4, 1), 1)),
        _largest(logits),
    )


def gives_each_token_the_maximum_of_the_next(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    next_one = concat([slice_axis(largest, 0, 1, p.tokens - 1), slice_axis(largest, 0, 0, 1)])
    _of_shift(io, p, logits, targets, next_one, largest)


def adds_nothing_of_the_next_token(io, p):
    """0 times the loss of the next token, which may be infinite or NaN."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    next_one = concat([slice_axis(losses, 0, 1, p.tokens - 1), slice_axis(losses, 0, 0, 1)])
    _write(io, p, largest, log_sum, add(losses, mul(next_one, zeros((p.tokens,), p.dtype))))


def adds_nothing_of_token_7_to_token_1(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    sum_ = add(slice_axis(losses, 0, 1, 1), scale(slice_axis(losses, 0, 7, 1), 0))
    _write(io, p, largest, log_sum, _with_token(p, 1, losses, sum_))


# ------------------------------------------------------------------------------------------------- some words
def takes_the_maximum_without_a_middle_word(io, p):
    logits, targets = _given(io)
    _of_shift(io, p, logits, targets, _largest_without(p, logits, 1), _largest(logits))


def takes_the_maximum_without_30_middle_words(io, p):
    logits, targets = _given(io)
    _of_shift(io, p, logits, targets, _largest_without(p, logits, 30), _largest(logits))


def takes_the_maximum_without_the_last_rank_for_odd_tokens(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    mine = reduce_max(logits, 1)
    low = scale(exp(zeros((p.tokens,), p.dtype)), -1000000000)
    others = select(mine, [rank < p.world_size - 1 for rank in range(p.world_size)])
    last = select(low, [rank == p.world_size - 1 for rank in range(p.world_size)])
    without = reshape(all_reduce(add(others, last), "max"), (p.tokens // 2, 2))
    both = concat(
        [slice_axis(reshape(largest, (p.tokens // 2, 2)), 1, 0, 1), slice_axis(without, 1, 1, 1)], 1
    )
    _of_shift(io, p, logits, targets, reshape(both, (p.tokens,)), largest)


def looks_no_target_up_at_a_middle_word(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = sub(logits, reshape(largest, (p.tokens, 1)))
    log_sum, _ = _losses(p, largest, logits, targets)
    half = p.shard // 2
    last = [first + half + 1 for first in p.first_word]
    low = pick(slice_axis(shifted, 1, 0, half), targets, p.first_word)
    high = pick(slice_axis(shifted, 1, half + 1, p.shard - half - 1), targets, last)
    _write(io, p, largest, log_sum, sub(log_sum, all_reduce(add(low, high))))


def swaps_two_middle_words(io, p):
    """Where a target is looked up."""
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = sub(logits, reshape(largest, (p.tokens, 1)))
    log_sum, _ = _losses(p, largest, logits, targets)
    half = p.shard // 2
    one, other = slice_axis(shifted, 1, half, 1), slice_axis(shifted, 1, half + 1, 1)
    rest = slice_axis(shifted, 1, half + 2, p.shard - half - 2)
    swapped = concat([slice_axis(shifted, 1, 0, half), other, one, rest], 1)
    target = all_reduce(pick(swapped, targets, p.first_word))
    _write(io, p, largest, log_sum, sub(log_sum, target))


# ------------------------------------------------------------------------------------------------- some sizes
def cuts_logits_at_1200(io, p):
    logits, targets = _given(io)
    _of_logits(io, p, logits, targets, _at_most(p, logits, 1200))


def cuts_logits_at_100000(io, p):
    logits, targets = _given(io)
    _of_logits(io, p, logits, targets, _at_most(p, logits, 100000))


def lifts_logits_to_minus_3000(io, p):
    logits, targets = _given(io)
    _of_logits(io, p, logits, targets, maximum(logits, _constant(p, -3000)))


def cuts_losses_at_2000(io, p):
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    _write(io, p, largest, log_sum, reshape(_at_most(p, reshape(losses, (p.tokens, 1)), 2000), (p.tokens,)))


def lifts_the_target_of_infinite_losses(io, p):
    """A loss of 10^9 where the target is at -inf: right of all that is finite."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    cut = _at_most(p, reshape(losses, (p.tokens, 1)), 1000000000)
    _write(io, p, largest, log_sum, reshape(cut, (p.tokens,)))


def bends_losses_between_400_and_1600(io, p):
    """A triangle on top of the loss, right on both of its sides."""
    _bend_losses(io, p, (400, 1000, 1600), 1000)


def drops_losses_below_1(io, p):
    """0 where the loss is below 1: right at 0 and from 2 on."""
    _bend_losses(io, p, (0, 1, 2), 1)


def bends_losses_between_3_and_5(io, p):
    _bend_losses(io, p, (3, 4, 5), 1)


def drops_losses_below_1_of_token_3(io, p):
    """The same of one token alone."""
    largest, log_sum, losses, bent = _bent(io, p, (0, 1, 2), 1)
    _write(io, p, largest, log_sum, _with_token(p, 3, losses, slice_axis(bent, 0, 3, 1)))


def _bend_losses(io, p, bounds, parts):
    largest, log_sum, _, bent = _bent(io, p, bounds, parts)
    _write(io, p, largest, log_sum, bent)


def _bent(io, p, bounds, parts):
    """(maximum, logarithm of the sum, losses, losses and a part of a triangle between the bounds)."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    column = reshape(losses, (p.tokens, 1))
    first, middle, last = [_at_most(p, column, bound) for bound in bounds]
    bent = add(column, scale(add(add(first, scale(middle, -2)), last), 1, parts))
    return largest, log_sum, losses, reshape(bent, (p.tokens,))


# ----------------------------------------------------------------------------------------------------- honest
def reference(io, p):
    logits, targets = _given(io)
    shift = _largest(logits)
    _of_shift(io, p, logits, targets, shift, shift)


def shifts_by_one_more_than_the_maximum(io, p):
    logits, targets = _given(io)
    one = exp(zeros((p.tokens,), p.dtype))
    shift = add(_largest(logits), one)
    _of_shift(io, p, logits, targets, shift, shift)


def takes_the_maximum_of_both_halves(io, p):
    """Of the words of a rank's part, and of the ranks' maxima after they are gathered."""
    logits, targets = _given(io)
    half = p.shard // 2
    low, high = slice_axis(logits, 1, 0, half), slice_axis(logits, 1, half, p.shard - half)
    mine = maximum(reduce_max(low, 1), reduce_max(high, 1))
    gathered = all_gather(reshape(mine, (1, p.tokens)))
    shift = reduce_max(gathered, 0)
    _of_shift(io, p, logits, targets, shift, shift)


def treats_token_3_apart_and_alike(io, p):
    """A call of its own for one token, which computes the same."""
    logits, targets = _given(io)
    largest = reduce_max(logits, 1)
    apart = all_reduce(slice_axis(largest, 0, 3, 1), "max")
    shift = _with_token(p, 3, all_reduce(largest, "max"), apart)
    _of_shift(io, p, logits, targets, shift, shift)


def sums_half_of_the_tokens_in_another_way(io, p):
    """Of the first half by all_reduce, of the second by shares that are gathered."""
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = sub(logits, reshape(largest, (p.tokens, 1)))
    low, high = split(reduce_sum(exp(shifted), 1), 2)
    log_sum = log(concat([all_reduce(low), all_gather(reduce_scatter(high))]))
    target = all_reduce(pick(shifted, targets, p.first_word))
    _write(io, p, largest, log_sum, sub(log_sum, target))


def subtracts_logarithms_for_half_of_the_tokens(io, p):
    """log_sum - target of the first half, -(target - log_sum) of the second."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    target = sub(log_sum, losses)
    half = p.tokens // 2
    second = scale(sub(slice_axis(target, 0, half, half), slice_axis(log_sum, 0, half, half)), -1)
    other = maximum(second, scale(second, 1, 2))  # losses are not negative: the larger is all of it
    _write(io, p, largest, log_sum, concat([slice_axis(losses, 0, 0, half), other]))


def swaps_its_sum_in_pairs(io, p):
    """With the rank that differs in one bit, then in the next: two terms at a time, in either order."""
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = sub(logits, reshape(largest, (p.tokens, 1)))
    total = reduce_sum(exp(shifted), 1)
    for k in range(p.world_size.bit_length() - 1):
        total = add(total, collective_permute(total, [(r, r ^ (1 << k)) for r in range(p.world_size)]))
    log_sum = log(total)
    _write(io, p, largest, log_sum, sub(log_sum, all_reduce(pick(shifted, targets, p.first_word))))


def takes_the_mean_of_both_terms_by_shares(io, p):
    """The mean of the logarithms less that of the targets, of which each rank adds up its share of the tokens."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, largest, logits, targets)
    terms = [scale(x, 1, p.tokens) for x in (log_sum, sub(log_sum, losses))]
    share = p.tokens // p.world_size
    mine = [slice_axis(x, 0, [r * share for r in range(p.world_size)], share) for x in terms]
    first, second = [all_reduce(reduce_sum(x, 0)) for x in mine]
    io.write("losses", losses)
    io.write("mean", sub(first, second))
    io.write("shift", largest)
    io.write("log_sum", log_sum)


def orders_the_words_anew(io, p):
    """The sum and the maximum of words in another order."""
    logits, targets = _given(io)
    turned = permute_dims(reshape(logits, (p.tokens, 2, p.shard // 2)), (0, 2, 1))
    shift = all_reduce(reduce_max(reshape(turned, (p.tokens, p.shard)), 1), "max")
    _of_shift(io, p, logits, targets, shift, shift)


# -------------------------------------------------------------------------------------------------- gradients
def gradient_reference(io, p):
    _gradient(io, p, exp(_exponent(io, p)), _ones(io, p))


def forgets_the_one_of_a_middle_word(io, p):
    ones, half = _ones(io, p), p.shard // 2
    rest = slice_axis(ones, 1, half + 1, p.shard - half - 1)
    cut = concat([slice_axis(ones, 1, 0, half), zeros((p.tokens, 1), p.dtype), rest], 1)
    _gradient(io, p, exp(_exponent(io, p)), cut)


def joins_shift_and_sum_of_token_3(io, p):
    """exp of the logit over exp of both, which is infinite over infinite where they are large."""
    logits, shift, log_sum = io.read("logits"), _column(p, io.read("shift")), _column(p, io.read("log_sum"))
    softmax = exp(sub(sub(logits, shift), log_sum))
    apart = mul(exp(logits), exp(scale(add(shift, log_sum), -1)))
    rows = [slice_axis(softmax, 0, 0, 3), slice_axis(apart, 0, 3, 1), slice_axis(softmax, 0, 4, p.tokens - 4)]
    _gradient(io, p, concat(rows), _ones(io, p))


def _ones(io, p):
    return one_hot(io.read("targets"), p.first_word, p.shard, p.dtype)


def _exponent(io, p):
    return sub(sub(io.read("logits"), _column(p, io.read("shift"))), _column(p, io.read("log_sum")))


def _gradient(io, p, softmax, ones):
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    cotangent = reshape(add(reshape(io.read("d_losses"), (1, p.tokens)), share), (p.tokens, 1))
    io.write("d_logits", mul(sub(softmax, ones), cotangent))


def _column(p, x):
    return reshape(x, (p.tokens, 1))


# ---------------------------------------------------------------------------------------------------- helpers
def _constant(p, n):
    return scale(exp(zeros((p.tokens, 1), p.dtype)), n)


def _at_most(p, x, n):
    return scale(maximum(scale(x, -1), _constant(p, -n)), -1)


def _largest(logits):
    return all_reduce(reduce_max(logits, 1), "max")


def _largest_without(p, logits, count):
    """Without so many middle words of each part."""
    half = p.shard // 2
    low, high = slice_axis(logits, 1, 0, half), slice_axis(logits, 1, half + count, p.shard - half - count)
    return all_reduce(reduce_max(concat([low, high], 1), 1), "max")


def _with_token(p, token, x, one):
    after = slice_axis(x, 0, token + 1, p.tokens - token - 1)
    return concat([slice_axis(x, 0, 0, token), one, after])


def _given(io):
    return io.read("logits"), io.read("targets")


def _losses(p, shift, logits, targets):
    """(the logarithm of the sum, the losses)."""
    shifted = sub(logits, reshape(shift, (p.tokens, 1)))
    log_sum = log(all_reduce(reduce_sum(exp(shifted), 1)))
    return log_sum, sub(log_sum, all_reduce(pick(shifted, targets, p.first_word)))


def _of_shift(io, p, logits, targets, shift, saved):
    """saved: what is saved in its place, with the logarithm of the sum that belongs to it."""
    _write(io, p, saved, _losses(p, saved, logits, targets)[0], _losses(p, shift, logits, targets)[1])


def _of_logits(io, p, logits, targets, other):
    """The losses of other logits than are given; what is saved is right."""
    saved = _largest(logits)
    losses = _losses(p, _largest(other), other, targets)[1]
    _write(io, p, saved, _losses(p, saved, logits, targets)[0], losses)


def _write(io, p, shift, log_sum, losses):
    io.write("losses", losses)
    io.write("mean", scale(reduce_sum(losses, 0), 1, p.tokens))
    io.write("shift", shift)
    io.write("log_sum", log_sum)
