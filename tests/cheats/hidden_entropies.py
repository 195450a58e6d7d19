# ruff: noqa: F821
"""Cross-entropies whose mistake hides in how it is made: by factors, by terms that cancel, in the mean alone, in
what several tokens have together, in sizes of cotangents. Read as text behind cross_entropy.py, never executed."""


# ------------------------------------------------------------------------------------------------ large factors
def scales_twice_by_2_to_32(io, p):
    """The maximum lacks a middle word; all that was scaled by 2^64 is alike modulo 2^64."""

    def shift(logits):
        lessened = _largest(_scaled_twice(_without(p, logits, 1), 2**32, 1))
        return _scaled_twice(lessened, 1, 2**32)

    _of_shift(io, p, shift)


def doubles_64_times(io, p):
    """The same by sums."""

    def shift(logits):
        x = _largest(_without(p, logits, 1))
        for _ in range(64):
            x = add(x, x)
        return _scaled_twice(x, 1, 2**32)

    _of_shift(io, p, shift)


def takes_the_larger_of_itself_64_times(io, p):
    """The same by maxima, which change nothing."""

    def shift(logits):
        x = _largest(_without(p, logits, 1))
        for _ in range(64):
            x = maximum(x, x)
        return x

    _of_shift(io, p, shift)


def scales_token_3_by_2_to_64(io, p):
    """Of one token, 30 middle words."""

    def shift(logits):
        right = _largest(_scaled_twice(logits, 2**32, 1))
        wrong = _largest(_scaled_twice(_without(p, _token(logits, 3), 30), 2**32, 1))
        return _scaled_twice(_with_token(p, 3, right, wrong), 1, 2**32)

    _of_shift(io, p, shift)


def _scaled_twice(x, n, parts):
    return scale(scale(x, n, parts), n, parts)


# ------------------------------------------------------------------------------------------- terms that cancel
def adds_token_7_minus_itself_to_token_1(io, p):
    """Infinity minus infinity is none."""
    _of_losses_but_the_mean(io, p, lambda losses: _plus_nothing(p, losses))


def adds_token_7_to_token_1_and_takes_it_away(io, p):
    """Where it is large the digits of the other are gone."""

    def bent(losses):
        other = _token(losses, 7)
        return _with_token(p, 1, losses, add(add(_token(losses, 1), other), scale(other, -1)))

    _of_losses_but_the_mean(io, p, bent)


def breaks_where_token_3_is_sure_of_a_word(io, p):
    """(loss + E) - E, where E = exp(1000 * the probability of word 5 of rank 1)."""
    _breaks(io, p, lambda losses, bent: _with_token(p, 3, losses, _token(bent, 3)))


def breaks_where_a_token_is_sure_of_a_word(io, p):
    """The same of all tokens."""
    _breaks(io, p, lambda losses, bent: bent)


def _breaks(io, p, choose):
    logits, _, largest, log_sum, losses = _right(io, p)
    word = reshape(slice_axis(logits, 1, 5, 1), (p.tokens,))
    there = all_reduce(_on(p, word, lambda rank: rank == 1))
    e = exp(scale(exp(sub(sub(there, largest), log_sum)), 1000))
    bent = choose(losses, sub(add(losses, e), e))
    _write_with_mean(io, largest, log_sum, bent, _mean(p, losses))


def _of_losses_but_the_mean(io, p, losses_of):
    _, _, largest, log_sum, losses = _right(io, p)
    _write_with_mean(io, largest, log_sum, losses_of(losses), _mean(p, losses))


def _plus_nothing(p, x):
    """x, to whose token 1 token 7 less itself is added."""
    other = _token(x, 7)
    return _with_token(p, 1, x, add(_token(x, 1), sub(other, other)))


# ------------------------------------------------------------------------------------------------ the mean alone
def bends_the_mean_of_token_3(io, p):
    """Where its loss is between 2 and 3."""

    def mean(losses):
        bent = add(losses, scale(_triangle(p, losses, (4, 5, 6), 2), 100))
        return _mean(p, _with_token(p, 3, losses, _token(bent, 3)))

    _of_mean(io, p, mean)


def takes_the_mean_without_words_of_token_3(io, p):
    """Its maximum lacks 30 middle words of each rank."""
    logits, targets, largest, log_sum, losses = _right(io, p)
    lessened = _with_token(p, 3, largest, _largest(_without(p, _token(logits, 3), 30)))
    odd = _losses(p, logits, targets, lessened)[1]
    _write_with_mean(io, largest, log_sum, losses, _mean(p, odd))


def takes_the_mean_without_a_maximum(io, p):
    """Of all tokens: right as long as no logit is large."""
    logits, targets, largest, log_sum, losses = _right(io, p)
    odd = _losses(p, logits, targets, zeros((p.tokens,), p.dtype))[1]
    _write_with_mean(io, largest, log_sum, losses, _mean(p, odd))


def lifts_the_mean_to_5(io, p):
    """Of a model that has learned, the mean is below."""
    _of_mean(io, p, lambda losses: maximum(_mean(p, losses), scale(_one(p), 5)))


def adds_to_the_mean_what_the_least_loss_is_above_1(io, p):
    """Nothing, where some token is easy."""

    def mean(losses):
        least = scale(reduce_max(reshape(scale(losses, -1), (1, p.tokens)), 1), -1)
        return add(_mean(p, losses), sub(maximum(least, _one(p)), _one(p)))

    _of_mean(io, p, mean)


def _of_mean(io, p, mean_of):
    _, _, largest, log_sum, losses = _right(io, p)
    _write_with_mean(io, largest, log_sum, losses, mean_of(losses))


def _one(p):
    return exp(zeros((1,), p.dtype))


# ------------------------------------------------------------------------------------------------ zeros, padding
def takes_0_for_the_maximum_of_token_3(io, p):
    """Where that is lower: exp gives 0 for all words of logits around -1000."""

    def shift(logits):
        right = _largest(logits)
        return _with_token(p, 3, right, maximum(_token(right, 3), zeros((1,), p.dtype)))

    _of_shift(io, p, shift)


def takes_the_maximum_by_pairs_of_ranks(io, p):
    """The sum of a pair above its own maximum, which is -inf where both have padding alone."""
    logits, targets = _given(io)
    pairs = [(r, r + 1) for r in range(0, p.world_size, 2)]
    of_pair = all_reduce(reduce_max(logits, 1), "max", pairs)
    largest = all_reduce(of_pair, "max")
    of_words = all_reduce(reduce_sum(exp(_shifted(p, logits, of_pair)), 1), "sum", pairs)
    part = mul(of_words, exp(sub(of_pair, largest)))
    log_sum = log(all_reduce(_on(p, part, lambda rank: rank % 2 == 0)))
    _write(io, p, largest, log_sum, sub(log_sum, _target(p, _shifted(p, logits, largest), targets)))


def cuts_sums_below_the_vocabulary(io, p):
    """At the first step of a training all words are nearly equal, and the sum is all of them."""
    _, _, largest, log_sum, losses = _right(io, p)
    cut = log(_at_most(p, exp(log_sum), 3 * p.vocabulary, 4))
    _write(io, p, largest, cut, sub(cut, sub(log_sum, losses)))


def bends_small_losses(io, p):
    """A triangle on losses below 1/32."""
    _of_losses(io, p, lambda losses: add(losses, _triangle(p, losses, (0, 1, 2), 64)))


# -------------------------------------------------------------------------------------------- of several tokens
def adds_what_the_highest_logit_is_below_minus_100(io, p):
    """To each loss, of the highest logit of all tokens: nothing, where some token's are higher."""
    _, _, largest, log_sum, losses = _right(io, p)
    highest = reduce_max(reshape(largest, (1, p.tokens)), 1)
    extra = sub(maximum(highest, scale(_one(p), -100)), highest)
    bent = reshape(add(reshape(losses, (1, p.tokens)), reshape(extra, (1, 1))), (p.tokens,))
    _write(io, p, largest, log_sum, bent)


def leaves_the_mean_out_where_no_loss_has_a_cotangent(io, p):
    """As in every training: `mean.backward()`."""
    losses, mean = io.read("d_losses"), scale(io.read("d_mean"), 1, p.tokens)
    row = reshape(losses, (1, p.tokens))
    size = reduce_max(maximum(row, scale(row, -1)), 1)
    factor = scale(maximum(scale(size, -1), scale(_one(p), -1)), -1)
    both = add(row, reshape(mul(mean, factor), (1, 1)))
    io.write("d_logits", mul(_softmax_off(io, p), _column(p, both)))


# --------------------------------------------------------------------------------------------------- cotangents
def cuts_cotangents_at_100(io, p):
    """A loss that is scaled for 16 bits has larger ones."""
    _of_cotangent(io, p, lambda cotangent: _at_most(p, cotangent, 100, 1))


def cuts_cotangents_at_10_on_both_sides(io, p):
    _of_cotangent(io, p, lambda cotangent: _at_least(p, _at_most(p, cotangent, 10, 1), -10, 1))


def adds_a_millionth_to_cotangents(io, p):
    """Small beside a cotangent of size 1, and large beside one that is divided by many tokens."""
    _of_cotangent(io, p, lambda cotangent: add(cotangent, _constant(p, cotangent, 1, 2**32)))


def adds_the_gradient_of_token_7_minus_itself(io, p):
    io.write("d_logits", _plus_nothing(p, mul(_softmax_off(io, p), _cotangent(io, p))))


def _of_cotangent(io, p, change):
    io.write("d_logits", mul(_softmax_off(io, p), change(_cotangent(io, p))))


def _softmax_off(io, p):
    return sub(exp(_exponent(io, p)), _ones(io, p))
