"""Cheats at handing over between two stages of a pipeline. Read as text, never executed."""

from overlayccl_core.program.language import add, all_reduce, collective_permute, scale, select


def reference(io, p):
    for m in range(p.microbatches):
        io.write("b", m, collective_permute(io.read("a", m), _onward(p)))
        io.write("gb", m, collective_permute(io.read("ga", m), _back(p)))


def sums_pairs_unmasked(io, p):
    """Who receives adds what it happens to hold. Stopped as WRONG_VALUE by INVALID_INPUTS."""
    for m in range(p.microbatches):
        io.write("b", m, all_reduce(io.read("a", m), "sum", _onward(p)))
        io.write("gb", m, all_reduce(io.read("ga", m), "sum", _onward(p)))


def masks_by_multiplication(io, p):
    """0 times what is not valid, which may be NaN. Stopped as GAIN by GAIN, NUMERICS."""
    for m in range(p.microbatches):
        a = io.read("a", m)
        io.write("b", m, add(collective_permute(a, _onward(p)), scale(a, 0)))
        io.write("gb", m, collective_permute(io.read("ga", m), _back(p)))


def shares_a_buffer_unmasked(io, p):
    """The gradient of a microbatch travels with the activation of the next one, in one exchange, as if
    each were zero where the other is valid. Stopped as WRONG_VALUE by INVALID_INPUTS."""
    _shares(io, p, add)


def shares_a_buffer(io, p):
    """Honest: the same, each half of the ranks with what it has."""
    _shares(io, p, lambda a, ga: _each_half(p, a, ga))


def answers_before_it_is_asked(io, p):
    """The gradient of a microbatch travels with its own activation, which the second stage needs first.
    Stopped as ORDER by ORDER."""
    both = _onward(p) + _back(p)
    for m in range(p.microbatches):
        theirs = collective_permute(_each_half(p, io.read("a", m), io.read("ga", m)), both)
        io.write("b", m, theirs)
        io.write("gb", m, theirs)


def hands_back_what_it_had_before(io, p):
    """The gradient of a microbatch is that of the one before it, which is there already.
    Stopped as WRONG_VALUE by INDEPENDENT_PORTS."""
    before = None
    for m in range(p.microbatches):
        io.write("b", m, collective_permute(io.read("a", m), _onward(p)))
        mine = collective_permute(io.read("ga", m), _back(p))
        io.write("gb", m, mine if before is None else before)
        before = mine


def _shares(io, p, joined):
    both = _onward(p) + _back(p)
    io.write("b", 0, collective_permute(io.read("a", 0), both))
    for m in range(1, p.microbatches):
        theirs = collective_permute(joined(io.read("a", m), io.read("ga", m - 1)), both)
        io.write("b", m, theirs)
        io.write("gb", m - 1, theirs)
    last = p.microbatches - 1
    io.write("gb", last, collective_permute(io.read("ga", last), both))


def _each_half(p, a, ga):
    first = [r < p.world_size // 2 for r in range(p.world_size)]
    return add(select(a, first), select(ga, [not f for f in first]))


def _onward(p):
    half = p.world_size // 2
    return [(r, r + half) for r in range(half)]


def _back(p):
    half = p.world_size // 2
    return [(r + half, r) for r in range(half)]
