# ruff: noqa: F401  what stands behind it uses the other names
"""What the cross-entropies of the files beside it are made of, and the right one. It stands before each of them."""

from overlayccl_core.program.language import (
    add,
    all_gather,
    all_reduce,
    cast,
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


def reference(io, p):
    """The maximum, the sum and the target's logit."""
    _of_saved_shift(io, p, _largest)


def gradient_reference(io, p):
    _gradient(io, p, exp(_exponent(io, p)), _ones(io, p))


# --------------------------------------------------------------------------------------------------- forward
def _given(io):
    return io.read("logits"), io.read("targets")


def _largest(logits):
    return all_reduce(reduce_max(logits, 1), "max")


def _shifted(p, logits, shift):
    return sub(logits, _column(p, shift))


def _log_sum(shifted):
    return log(all_reduce(reduce_sum(exp(shifted), 1)))


def _target(p, shifted, targets):
    return all_reduce(pick(shifted, targets, p.first_word))


def _losses(p, logits, targets, shift):
    """(the logarithm of the sum, the losses)."""
    shifted = _shifted(p, logits, shift)
    log_sum = _log_sum(shifted)
    return log_sum, sub(log_sum, _target(p, shifted, targets))


def _mean(p, losses):
    return scale(reduce_sum(losses, 0), 1, p.tokens)


def _write(io, p, shift, log_sum, losses):
    _write_with_mean(io, shift, log_sum, losses, _mean(p, losses))


def _write_with_mean(io, shift, log_sum, losses, mean):
    io.write("losses", losses)
    io.write("mean", mean)
    io.write("shift", shift)
    io.write("log_sum", log_sum)


def _of_shift(io, p, shift_of):
    """Losses by a shift that is made of the logits; what is saved is right."""
    logits, targets = _given(io)
    losses = _losses(p, logits, targets, shift_of(logits))[1]
    largest = _largest(logits)
    _write(io, p, largest, _losses(p, logits, targets, largest)[0], losses)


def _of_saved_shift(io, p, shift_of):
    """The same, and the shift is saved."""
    logits, targets = _given(io)
    shift = shift_of(logits)
    log_sum, losses = _losses(p, logits, targets, shift)
    _write(io, p, shift, log_sum, losses)


def _of_target(io, p, target_of):
    """Losses by a target that is made of what is shifted by the maximum, and of the ids."""
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = _shifted(p, logits, largest)
    log_sum = _log_sum(shifted)
    _write(io, p, largest, log_sum, sub(log_sum, target_of(shifted, targets)))


def _of_sum(io, p, log_sum_of):
    """Losses by a logarithm of the sum that is made of what is shifted by the maximum."""
    logits, targets = _given(io)
    largest = _largest(logits)
    shifted = _shifted(p, logits, largest)
    log_sum = log_sum_of(shifted)
    _write(io, p, largest, log_sum, sub(log_sum, _target(p, shifted, targets)))


def _right(io, p):
    """(logits, targets, the maximum, the logarithm of the sum, the losses)."""
    logits, targets = _given(io)
    largest = _largest(logits)
    log_sum, losses = _losses(p, logits, targets, largest)
    return logits, targets, largest, log_sum, losses


def _of_losses(io, p, losses_of):
    """Other losses, made of the right ones."""
    _, _, largest, log_sum, losses = _right(io, p)
    _write(io, p, largest, log_sum, losses_of(losses))


# -------------------------------------------------------------------------------------------------- backward
def _ones(io, p):
    return one_hot(io.read("targets"), p.first_word, p.shard, p.dtype)


def _exponent(io, p):
    return _shifted(p, _shifted(p, io.read("logits"), io.read("shift")), io.read("log_sum"))


def _cotangent(io, p):
    share = scale(reshape(io.read("d_mean"), (1, 1)), 1, p.tokens)
    return _column(p, add(reshape(io.read("d_losses"), (1, p.tokens)), share))


def _gradient(io, p, softmax, ones):
    io.write("d_logits", mul(sub(softmax, ones), _cotangent(io, p)))


# ---------------------------------------------------------------------------------------------------- helpers
def _column(p, x):
    return reshape(x, (p.tokens, 1))


def _constant(p, x, n, parts):
    """n / parts for each token, to meet x, which has words or has none."""
    return scale(exp(zeros((p.tokens,) + (1,) * (len(x.shape) - 1), p.dtype)), n, parts)


def _at_least(p, x, n, parts):
    return maximum(x, _constant(p, x, n, parts))


def _at_most(p, x, n, parts):
    return scale(_at_least(p, scale(x, -1), -n, parts), -1)


def _triangle(p, x, bounds, parts):
    """Zero outside of the bounds (in so many parts of 1), down to minus a half of their distance between them."""
    first, middle, last = [_at_most(p, x, bound, parts) for bound in bounds]
    return add(add(first, scale(middle, -2)), last)


def _without(p, x, count):
    """Without so many middle words of each part."""
    half = p.shard // 2
    return concat([slice_axis(x, 1, 0, half), slice_axis(x, 1, half + count, p.shard - half - count)], 1)


def _token(x, token):
    return slice_axis(x, 0, token, 1)


def _with_token(p, token, x, one):
    """x, with another value of one token."""
    after = slice_axis(x, 0, token + 1, x.shape[0] - token - 1)
    return concat([slice_axis(x, 0, 0, token), one, after])


def _next(p, x):
    """Of each token the value of the next one."""
    return concat([slice_axis(x, 0, 1, p.tokens - 1), _token(x, 0)])


def _on(p, x, wanted):
    """x on some ranks, zeros on the others."""
    return select(x, [wanted(rank) for rank in range(p.world_size)])
