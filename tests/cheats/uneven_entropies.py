# ruff: noqa: F821
"""Cross-entropies that are right but for one token, some words or some sizes of logits, and odd ones that are
right. Read as text behind cross_entropy.py, never executed."""


# ------------------------------------------------------------------------------------------------ some tokens
def spares_token_3_the_maximum(io, p):
    _of_saved_shift(io, p, lambda logits: _with_token(p, 3, _largest(logits), zeros((1,), p.dtype)))


def spares_token_5_the_maximum_and_saves_it(io, p):
    """What is saved is right: the losses alone are not."""
    _of_shift(io, p, lambda logits: _with_token(p, 5, _largest(logits), zeros((1,), p.dtype)))


def gives_token_2_the_maximum_of_rank_0(io, p):
    def shift(logits):
        mine = _on(p, _token(reduce_max(logits, 1), 2), lambda rank: rank == 0)
        return _with_token(p, 2, _largest(logits), all_reduce(mine))

    _of_shift(io, p, shift)


def gives_token_4_the_maximum_without_a_middle_word(io, p):
    def shift(logits):
        return _with_token(p, 4, _largest(logits), _largest(_without(p, _token(logits, 4), 1)))

    _of_shift(io, p, shift)


def gives_each_token_the_maximum_of_the_next(io, p):
    _of_shift(io, p, lambda logits: _next(p, _largest(logits)))


def adds_nothing_of_the_next_token(io, p):
    """0 times the loss of the next token, which may be infinite or NaN."""
    nothing = zeros((p.tokens,), p.dtype)
    _of_losses(io, p, lambda losses: add(losses, mul(_next(p, losses), nothing)))


def adds_nothing_of_token_7_to_token_1(io, p):
    def bent(losses):
        return _with_token(p, 1, losses, add(_token(losses, 1), scale(_token(losses, 7), 0)))

    _of_losses(io, p, bent)


# ------------------------------------------------------------------------------------------------- some words
def takes_the_maximum_without_a_middle_word(io, p):
    _of_shift(io, p, lambda logits: _largest(_without(p, logits, 1)))


def takes_the_maximum_without_30_middle_words(io, p):
    _of_shift(io, p, lambda logits: _largest(_without(p, logits, 30)))


def takes_the_maximum_without_the_last_rank_for_odd_tokens(io, p):
    last = p.world_size - 1

    def shift(logits):
        mine = reduce_max(logits, 1)
        low = _constant(p, mine, -(10**9), 1)
        without = add(_on(p, mine, lambda rank: rank < last), _on(p, low, lambda rank: rank == last))
        each = [reshape(x, (p.tokens // 2, 2)) for x in (_largest(logits), all_reduce(without, "max"))]
        return reshape(concat([slice_axis(each[odd], 1, odd, 1) for odd in range(2)], 1), (p.tokens,))

    _of_shift(io, p, shift)


def looks_no_target_up_at_a_middle_word(io, p):
    half = p.shard // 2

    def target(shifted, targets):
        high = slice_axis(shifted, 1, half + 1, p.shard - half - 1)
        behind = pick(high, targets, [first + half + 1 for first in p.first_word])
        return all_reduce(add(pick(slice_axis(shifted, 1, 0, half), targets, p.first_word), behind))

    _of_target(io, p, target)


def swaps_two_middle_words(io, p):
    """Where a target is looked up."""
    half = p.shard // 2
    pieces = ((0, half), (half + 1, 1), (half, 1), (half + 2, p.shard - half - 2))

    def target(shifted, targets):
        swapped = concat([slice_axis(shifted, 1, start, length) for start, length in pieces], 1)
        return _target(p, swapped, targets)

    _of_target(io, p, target)


# ------------------------------------------------------------------------------------------------- some sizes
def cuts_logits_at_1200(io, p):
    _of_logits(io, p, lambda logits: _at_most(p, logits, 1200, 1))


def cuts_logits_at_100000(io, p):
    _of_logits(io, p, lambda logits: _at_most(p, logits, 100000, 1))


def lifts_logits_to_minus_3000(io, p):
    _of_logits(io, p, lambda logits: _at_least(p, logits, -3000, 1))


def _of_logits(io, p, other_of):
    """The losses of other logits than are given; what is saved is right."""
    logits, targets, largest, log_sum, _ = _right(io, p)
    other = other_of(logits)
    _write(io, p, largest, log_sum, _losses(p, other, targets, _largest(other))[1])


def cuts_losses_at_2000(io, p):
    _of_losses(io, p, lambda losses: _at_most(p, losses, 2000, 1))


def lifts_the_target_of_infinite_losses(io, p):
    """A loss of 10^9 where the target is at -inf: right of all that is finite."""
    _of_losses(io, p, lambda losses: _at_most(p, losses, 10**9, 1))


def bends_losses_between_400_and_1600(io, p):
    """A triangle on top of the loss, right on both of its sides."""
    _of_losses(io, p, lambda losses: add(losses, scale(_triangle(p, losses, (400, 1000, 1600), 1), 1, 1000)))


def drops_losses_below_1(io, p):
    """0 where the loss is below 1: right at 0 and from 2 on."""
    _of_losses(io, p, lambda losses: add(losses, _triangle(p, losses, (0, 1, 2), 1)))


def bends_losses_between_3_and_5(io, p):
    _of_losses(io, p, lambda losses: add(losses, _triangle(p, losses, (3, 4, 5), 1)))


def drops_losses_below_1_of_token_3(io, p):
    """The same of one token alone."""

    def bent(losses):
        dropped = add(losses, _triangle(p, losses, (0, 1, 2), 1))
        return _with_token(p, 3, losses, _token(dropped, 3))

    _of_losses(io, p, bent)


# ----------------------------------------------------------------------------------------------------- honest
def shifts_by_one_more_than_the_maximum(io, p):
    _of_saved_shift(io, p, lambda logits: add(_largest(logits), exp(zeros((p.tokens,), p.dtype))))


def takes_the_maximum_of_both_halves(io, p):
    """Of the words of a rank's part, and of the ranks' maxima after they are gathered."""
    half = p.shard // 2

    def shift(logits):
        low, high = slice_axis(logits, 1, 0, half), slice_axis(logits, 1, half, p.shard - half)
        mine = maximum(reduce_max(low, 1), reduce_max(high, 1))
        return reduce_max(all_gather(reshape(mine, (1, p.tokens))), 0)

    _of_saved_shift(io, p, shift)


def treats_token_3_apart_and_alike(io, p):
    """A call of its own for one token, which computes the same."""

    def shift(logits):
        apart = all_reduce(_token(reduce_max(logits, 1), 3), "max")
        return _with_token(p, 3, _largest(logits), apart)

    _of_saved_shift(io, p, shift)


def sums_half_of_the_tokens_in_another_way(io, p):
    """Of the first half by all_reduce, of the second by shares that are gathered."""

    def log_sum(shifted):
        low, high = split(reduce_sum(exp(shifted), 1), 2)
        return log(concat([all_reduce(low), all_gather(reduce_scatter(high))]))

    _of_sum(io, p, log_sum)


def subtracts_logarithms_for_half_of_the_tokens(io, p):
    """log_sum - target of the first half, -(target - log_sum) of the second."""
    _, _, largest, log_sum, losses = _right(io, p)
    target = sub(log_sum, losses)
    half = p.tokens // 2
    second = scale(sub(slice_axis(target, 0, half, half), slice_axis(log_sum, 0, half, half)), -1)
    other = maximum(second, scale(second, 1, 2))  # losses are not negative: the larger is all of it
    _write(io, p, largest, log_sum, concat([slice_axis(losses, 0, 0, half), other]))


def swaps_its_sum_in_pairs(io, p):
    """With the rank that differs in one bit, then in the next: two terms at a time, in either order."""

    def log_sum(shifted):
        total = reduce_sum(exp(shifted), 1)
        for k in range(p.world_size.bit_length() - 1):
            total = add(total, collective_permute(total, [(r, r ^ (1 << k)) for r in range(p.world_size)]))
        return log(total)

    _of_sum(io, p, log_sum)


def takes_the_mean_of_both_terms_by_shares(io, p):
    """The mean of the logarithms less that of the targets, of which each rank adds up its share of the tokens."""
    _, _, largest, log_sum, losses = _right(io, p)
    share = p.tokens // p.world_size

    def mean(x):
        mine = slice_axis(scale(x, 1, p.tokens), 0, [r * share for r in range(p.world_size)], share)
        return all_reduce(reduce_sum(mine, 0))

    _write_with_mean(io, largest, log_sum, losses, sub(mean(log_sum), mean(sub(log_sum, losses))))


def orders_the_words_anew(io, p):
    """The maximum of words in another order."""

    def shift(logits):
        turned = permute_dims(reshape(logits, (p.tokens, 2, p.shard // 2)), (0, 2, 1))
        return _largest(reshape(turned, (p.tokens, p.shard)))

    _of_saved_shift(io, p, shift)


# -------------------------------------------------------------------------------------------------- gradients
def forgets_the_one_of_a_middle_word(io, p):
    ones, half = _ones(io, p), p.shard // 2
    rest = slice_axis(ones, 1, half + 1, p.shard - half - 1)
    cut = concat([slice_axis(ones, 1, 0, half), zeros((p.tokens, 1), p.dtype), rest], 1)
    _gradient(io, p, exp(_exponent(io, p)), cut)


def joins_shift_and_sum_of_token_3(io, p):
    """exp of the logit over exp of both, which is infinite over infinite where they are large."""
    logits, shift, log_sum = io.read("logits"), io.read("shift"), io.read("log_sum")
    softmax = exp(_shifted(p, _shifted(p, logits, shift), log_sum))
    apart = mul(exp(logits), _column(p, exp(scale(add(shift, log_sum), -1))))
    _gradient(io, p, _with_token(p, 3, softmax, _token(apart, 3)), _ones(io, p))
