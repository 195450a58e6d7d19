"""Known ways of a cross-entropy over a vocabulary that is split over the ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    add,
    all_gather,
    all_reduce,
    concat,
    div,
    exp,
    log,
    maximum,
    mul,
    not_applicable,
    one_hot,
    permute_dims,
    pick,
    reduce_max,
    reduce_sum,
    reshape,
    scale,
    slice_axis,
    sub,
    zeros,
)
from overlayccl_core.strategies.ways import buffers, sums


def three_all_reduce(io, p):
    """Megatron's: the maximum, the target's logit and the sum, each by an all_reduce of one number a token."""
    logits = io.read("logits")
    largest = all_reduce(reduce_max(logits, 1), "max")
    shifted = sub(logits, _column(p, largest))
    target = all_reduce(pick(shifted, io.read("targets"), p.first_word))
    total = all_reduce(reduce_sum(exp(shifted), 1))
    _write(io, p, largest, log(total), target)


def max_then_stacked(io, p):
    """The maximum, then the sum and the target's logit in one all_reduce."""
    _after_the_maximum(io, p, buffers.reduced)


def gather_logits(io, p):
    """Everybody gets all logits and computes everything. What is left where no all_reduce takes a maximum."""
    logits = all_gather(io.read("logits"), 1)
    largest = reduce_max(logits, 1)
    shifted = sub(logits, _column(p, largest))
    target = pick(shifted, io.read("targets"), 0)
    _write(io, p, largest, log(reduce_sum(exp(shifted), 1)), target)


def gather_own_sums(io, p):
    """Each rank's own maximum, its sum and the target's logit, gathered once; each sum is scaled to the largest
    maximum (Milakov and Gimelshein 2018). The maximum of a part that is padding alone is a low number, not -inf."""
    logits = io.read("logits")
    lowest = scale(exp(zeros((p.tokens,), p.dtype)), -60000 if p.dtype == "float16" else -(10**9))
    mine = maximum(reduce_max(logits, 1), lowest)
    total = reduce_sum(exp(sub(logits, _column(p, mine))), 1)
    target = pick(logits, io.read("targets"), p.first_word)
    everybody = all_gather(reshape(concat([mine, total, target]), (1, 3, p.tokens)))
    maxima, totals, targets = [
        permute_dims(reshape(slice_axis(everybody, 1, i, 1), (p.world_size, p.tokens)), (1, 0))
        for i in range(3)
    ]
    largest = reduce_max(maxima, 1)
    scaled = mul(exp(sub(maxima, _column(p, largest))), totals)
    _write(io, p, largest, log(reduce_sum(scaled, 1)), sub(reduce_sum(targets, 1), largest))


def no_max_two(io, p):
    """The sum and the target's logit, of logits that exp can take as they are."""
    _without_a_maximum(io, p, lambda values, p: [all_reduce(x) for x in values])


def _without_a_maximum(io, p, way):
    """The same by a way of summing."""
    largest_exponent = 11 if p.dtype == "float16" else 88
    if p.range == 0 or p.range + p.vocabulary.bit_length() > largest_exponent:
        not_applicable("exp of the logits is out of the range of floats, as far as the Case's `range` says")
    logits = io.read("logits")
    total, target = way([reduce_sum(exp(logits), 1), pick(logits, io.read("targets"), p.first_word)], p)
    _write(io, p, zeros((p.tokens,), p.dtype), log(total), target)


def _after_the_maximum(io, p, way):
    """The sum and the target's logit, by a way of summing."""
    logits = io.read("logits")
    largest = all_reduce(reduce_max(logits, 1), "max")
    shifted = sub(logits, _column(p, largest))
    target = pick(shifted, io.read("targets"), p.first_word)
    target, total = way([target, reduce_sum(exp(shifted), 1)], p)  # in this order exp may overwrite `shifted`
    _write(io, p, largest, log(total), target)


def _write(io, p, shift, log_sum, target):
    """The losses and what the backward needs; target: the target's logit, shifted."""
    losses = sub(log_sum, target)
    io.write("losses", losses)
    io.write("mean", scale(reduce_sum(losses, 0), 1, p.tokens))
    io.write("shift", shift)
    io.write("log_sum", log_sum)


def softmax_minus_one_hot(io, p):
    """(softmax - one at the target) * cotangent, of my part."""
    shifted = sub(io.read("logits"), _column(p, io.read("shift")))
    _write_gradient(io, p, exp(sub(shifted, _column(p, io.read("log_sum")))))


def divided_by_the_sum(io, p):
    """The softmax as exp / sum, as it is written where the exponentials are at hand."""
    shifted = sub(io.read("logits"), _column(p, io.read("shift")))
    _write_gradient(io, p, div(exp(shifted), _column(p, exp(io.read("log_sum")))))


def _write_gradient(io, p, softmax):
    off = sub(softmax, one_hot(io.read("targets"), p.first_word, p.shard, p.dtype))
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    cotangent = add(reshape(io.read("d_losses"), (1, p.tokens)), share)
    io.write("d_logits", mul(off, reshape(cotangent, (p.tokens, 1))))


def _column(p, x):
    return reshape(x, (p.tokens, 1))


BACKWARD = Library(developer="softmax_minus_one_hot", others=("divided_by_the_sum",))
LIBRARY = Library(
    developer=("three_all_reduce", "gather_logits"),
    others=("max_then_stacked", "gather_own_sums", "no_max_two"),
    ways=((sums, _after_the_maximum), (sums, _without_a_maximum)),
)
