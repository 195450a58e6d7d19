"""Cross-entropies whose mistake hides in how it is made: by factors, by terms that cancel, in the mean alone, in
what several tokens have together, or in sizes of cotangents. Read as text, never executed."""

from overlayccl_core.program.language import (
    add,
    all_reduce,
    concat,
    exp,
    log,
    maximum,
    mul,
    one_hot,
    pick,
    reduce_max,
    reduce_sum,
    reshape,
    scale,
    select,
    slice_axis,
    sub,
    zeros,
)


# ------------------------------------------------------------------------------------------------ large factors
def scales_twice_by_2_to_32(io, p):
    """The maximum lacks a middle word; all that was scaled by 2^64 is alike modulo 2^64."""
    logits, targets = _given(io)
    big = 2**32
    lessened = _largest(scale(scale(_without(p, logits, 1), big), big))
    _of_shift(io, p, logits, targets, scale(scale(lessened, 1, big), 1, big))


def doubles_64_times(io, p):
    """The same by sums."""
    logits, targets = _given(io)
    x = _largest(_without(p, logits, 1))
    for _ in range(64):
        x = add(x, x)
    _of_shift(io, p, logits, targets, scale(scale(x, 1, 2**32), 1, 2**32))


def takes_the_larger_of_itself_64_times(io, p):
    """The same by maxima, which change nothing."""
    logits, targets = _given(io)
    x = _largest(_without(p, logits, 1))
    for _ in range(64):
        x = maximum(x, x)
    _of_shift(io, p, logits, targets, x)


def scales_token_3_by_2_to_64(io, p):
    """Of one token, 30 middle words."""
    logits, targets = _given(io)
    big = 2**32
    right = _largest(scale(scale(logits, big), big))
    wrong = _largest(scale(scale(_without(p, slice_axis(logits, 0, 3, 1), 30), big), big))
    _of_shift(io, p, logits, targets, scale(scale(_with_token(p, 3, right, wrong), 1, big), 1, big))


# ------------------------------------------------------------------------------------------- terms that cancel
def adds_token_7_minus_itself_to_token_1(io, p):
    """Infinity minus infinity is none."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    other = slice_axis(losses, 0, 7, 1)
    one = add(slice_axis(losses, 0, 1, 1), sub(other, other))
    _write(io, p, largest, log_sum, _with_token(p, 1, losses, one), losses)


def adds_token_7_to_token_1_and_takes_it_away(io, p):
    """Where it is large the digits of the other are gone."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    other = slice_axis(losses, 0, 7, 1)
    one = add(add(slice_axis(losses, 0, 1, 1), other), scale(other, -1))
    _write(io, p, largest, log_sum, _with_token(p, 1, losses, one), losses)


def breaks_where_token_3_is_sure_of_a_word(io, p):
    """(loss + E) - E, where E = exp(1000 * the probability of word 5 of rank 1)."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    e = _of_word_5(p, logits, largest, log_sum)
    bent = sub(add(losses, e), e)
    _write(io, p, largest, log_sum, _with_token(p, 3, losses, slice_axis(bent, 0, 3, 1)), losses)


def breaks_where_a_token_is_sure_of_a_word(io, p):
    """The same of all tokens."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    e = _of_word_5(p, logits, largest, log_sum)
    _write(io, p, largest, log_sum, sub(add(losses, e), e), losses)


def _of_word_5(p, logits, largest, log_sum):
    word = reshape(slice_axis(logits, 1, 5, 1), (p.tokens,))
    there = all_reduce(select(word, [rank == 1 for rank in range(p.world_size)]))
    return exp(scale(exp(sub(sub(there, largest), log_sum)), 1000))


# ------------------------------------------------------------------------------------------------ the mean alone
def bends_the_mean_of_token_3(io, p):
    """Where its loss is between 2 and 3."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    column = reshape(losses, (p.tokens, 1))
    first, middle, last = [_at_most(p, column, n, 2) for n in (4, 5, 6)]
    bent = add(losses, reshape(scale(add(add(first, scale(middle, -2)), last), 100), (p.tokens,)))
    one = slice_axis(bent, 0, 3, 1)
    _write(io, p, largest, log_sum, losses, _with_token(p, 3, losses, one))


def takes_the_mean_without_words_of_token_3(io, p):
    """Its maximum lacks 30 middle words of each rank."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    lessened = _largest(_without(p, slice_axis(logits, 0, 3, 1), 30))
    odd = _losses(p, logits, targets, _with_token(p, 3, largest, lessened))[1]
    _write(io, p, largest, log_sum, losses, odd)


def takes_the_mean_without_a_maximum(io, p):
    """Of all tokens: right as long as no logit is large."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    _write(io, p, largest, log_sum, losses, _losses(p, logits, targets, zeros((p.tokens,), p.dtype))[1])


def lifts_the_mean_to_5(io, p):
    """Of a model that has learned, the mean is below."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    mean = maximum(_mean(p, losses), scale(exp(zeros((1,), p.dtype)), 5))
    _written(io, largest, log_sum, losses, mean)


def adds_to_the_mean_what_the_least_loss_is_above_1(io, p):
    """Nothing, where some token is easy."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    _written(io, largest, log_sum, losses, add(_mean(p, losses), _least_above_1(p, losses)))


# ------------------------------------------------------------------------------------------------ zeros, padding
def takes_0_for_the_maximum_of_token_3(io, p):
    """Where that is lower: exp gives 0 for all words of logits around -1000."""
    logits, targets = _given(io)
    right = _largest(logits)
    lifted = maximum(slice_axis(right, 0, 3, 1), zeros((1,), p.dtype))
    _of_shift(io, p, logits, targets, _with_token(p, 3, right, lifted))


def takes_the_maximum_by_pairs_of_ranks(io, p):
    """The sum of a pair above its own maximum, which is -inf where both have padding alone."""
    logits, targets = _given(io)
    pairs = [(r, r + 1) for r in range(0, p.world_size, 2)]
    of_pair = all_reduce(reduce_max(logits, 1), "max", pairs)
    largest = all_reduce(of_pair, "max")
    shifted = sub(logits, reshape(of_pair, (p.tokens, 1)))
    part = mul(all_reduce(reduce_sum(exp(shifted), 1), "sum", pairs), exp(sub(of_pair, largest)))
    log_sum = log(all_reduce(select(part, [r % 2 == 0 for r in range(p.world_size)])))
    target = all_reduce(pick(sub(logits, reshape(largest, (p.tokens, 1))), targets, p.first_word))
    losses = sub(log_sum, target)
    _write(io, p, largest, log_sum, losses, losses)


def cuts_sums_below_the_vocabulary(io, p):
    """At the first step of a training all words are nearly equal, and the sum is all of them."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    target = sub(log_sum, losses)
    total = reshape(exp(log_sum), (p.tokens, 1))
    cut = log(reshape(_at_most(p, total, 3 * p.vocabulary, 4), (p.tokens,)))
    _write(io, p, largest, cut, sub(cut, target), sub(cut, target))


def bends_small_losses(io, p):
    """A triangle on losses below 1/32."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    column = reshape(losses, (p.tokens, 1))
    first, middle, last = [_at_most(p, column, n, 64) for n in (0, 1, 2)]
    bent = add(losses, reshape(add(add(first, scale(middle, -2)), last), (p.tokens,)))
    _write(io, p, largest, log_sum, bent, bent)


# -------------------------------------------------------------------------------------------- of several tokens
def adds_what_the_highest_logit_is_below_minus_100(io, p):
    """To each loss, of the highest logit of all tokens: nothing, where some token's are higher."""
    logits, targets = _given(io)
    largest, log_sum, losses = _right(p, logits, targets)
    highest = reduce_max(reshape(largest, (1, p.tokens)), 1)
    extra = sub(maximum(highest, scale(exp(zeros((1,), p.dtype)), -100)), highest)
    bent = reshape(add(reshape(losses, (1, p.tokens)), reshape(extra, (1, 1))), (p.tokens,))
    _write(io, p, largest, log_sum, bent, bent)


def leaves_the_mean_out_where_no_loss_has_a_cotangent(io, p):
    """As in every training: `mean.backward()`."""
    losses, mean = io.read("d_losses"), scale(io.read("d_mean"), 1, p.tokens)
    row = reshape(losses, (1, p.tokens))
    size = reduce_max(maximum(row, scale(row, -1)), 1)
    one = exp(zeros((1,), p.dtype))
    factor = scale(maximum(scale(size, -1), scale(one, -1)), -1)
    both = add(row, reshape(mul(mean, factor), (1, 1)))
    io.write("d_logits", mul(_softmax_off(io, p), reshape(both, (p.tokens, 1))))


# --------------------------------------------------------------------------------------------------- cotangents
def cuts_cotangents_at_100(io, p):
    """A loss that is scaled for 16 bits has larger ones."""
    cut = _at_most(p, _cotangent(io, p), 100, 1)
    io.write("d_logits", mul(_softmax_off(io, p), cut))


def cuts_cotangents_at_10_on_both_sides(io, p):
    cut = _at_most(p, _cotangent(io, p), 10, 1)
    io.write("d_logits", mul(_softmax_off(io, p), scale(_at_most(p, scale(cut, -1), 10, 1), -1)))


def adds_a_millionth_to_cotangents(io, p):
    """Small beside a cotangent of size 1, and large beside one that is divided by many tokens."""
    more = scale(_constant(p, 1, 1), 1, 2**32)
    io.write("d_logits", mul(_softmax_off(io, p), add(_cotangent(io, p), more)))


def adds_the_gradient_of_token_7_minus_itself(io, p):
    made = mul(_softmax_off(io, p), _cotangent(io, p))
    other = slice_axis(made, 0, 7, 1)
    one = add(slice_axis(made, 0, 1, 1), sub(other, other))
    io.write("d_logits", concat([slice_axis(made, 0, 0, 1), one, slice_axis(made, 0, 2, p.tokens - 2)]))


# ------------------------------------------------------------------------------------------------------ helpers
def _cotangent(io, p):
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    return reshape(add(reshape(io.read("d_losses"), (1, p.tokens)), share), (p.tokens, 1))


def _softmax_off(io, p):
    shift, log_sum = [reshape(io.read(x), (p.tokens, 1)) for x in ("shift", "log_sum")]
    ones = one_hot(io.read("targets"), p.first_word, p.shard, p.dtype)
    return sub(exp(sub(sub(io.read("logits"), shift), log_sum)), ones)


def _constant(p, n, parts):
    return scale(exp(zeros((p.tokens, 1), p.dtype)), n, parts)


def _at_most(p, x, n, parts):
    return scale(maximum(scale(x, -1), _constant(p, -n, parts)), -1)


def _largest(logits):
    return all_reduce(reduce_max(logits, 1), "max")


def _without(p, x, count):
    """Without so many middle words of each part."""
    half = p.shard // 2
    return concat([slice_axis(x, 1, 0, half), slice_axis(x, 1, half + count, p.shard - half - count)], 1)


def _with_token(p, token, x, one):
    after = slice_axis(x, 0, token + 1, p.tokens - token - 1)
    return concat([slice_axis(x, 0, 0, token), one, after])


def _given(io):
    return io.read("logits"), io.read("targets")


def _losses(p, logits, targets, shift):
    """(the logarithm of the sum, the losses)."""
    shifted = sub(logits, reshape(shift, (p.tokens, 1)))
    log_sum = log(all_reduce(reduce_sum(exp(shifted), 1)))
    return log_sum, sub(log_sum, all_reduce(pick(shifted, targets, p.first_word)))


def _right(p, logits, targets):
    """(the maximum, the logarithm of the sum, the losses)."""
    largest = _largest(logits)
    log_sum, losses = _losses(p, logits, targets, largest)
    return largest, log_sum, losses


def _of_shift(io, p, logits, targets, shift):
    """What is saved is right."""
    largest, log_sum, _ = _right(p, logits, targets)
    losses = _losses(p, logits, targets, shift)[1]
    _write(io, p, largest, log_sum, losses, losses)


def _mean(p, losses):
    return scale(reduce_sum(losses, 0), 1, p.tokens)


def _least_above_1(p, losses):
    least = scale(reduce_max(reshape(scale(losses, -1), (1, p.tokens)), 1), -1)
    one = exp(zeros((1,), p.dtype))
    return sub(maximum(least, one), one)


def _write(io, p, shift, log_sum, losses, averaged):
    _written(io, shift, log_sum, losses, _mean(p, averaged))


def _written(io, shift, log_sum, losses, mean):
    io.write("losses", losses)
    io.write("mean", mean)
    io.write("shift", shift)
    io.write("log_sum", log_sum)
