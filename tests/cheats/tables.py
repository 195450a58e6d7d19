"""Cheats with tables that point outside. Read as text, never executed."""

from overlayccl_core.program.language import all_reduce, collective_permute, concat, index_select, slice_axis


def reference(io, p):
    """x turned by one place, then handed to the next rank, then summed."""
    passed = collective_permute(_turned(io, p), [(r, (r + 1) % p.ranks) for r in range(p.ranks)])
    io.write("y", all_reduce(passed))


def starts_at_minus_one(io, p):
    x = io.read("x")
    turned = concat([slice_axis(x, 0, -1, 1), slice_axis(x, 0, 0, p.width - 1)])
    io.write("y", all_reduce(turned))


def starts_past_the_end_on_one_rank(io, p):
    x = io.read("x")
    last = slice_axis(x, 0, [p.width - 1] * (p.ranks - 1) + [p.width + 5], 1)
    io.write("y", all_reduce(concat([last, slice_axis(x, 0, 0, p.width - 1)])))


def indexes_past_the_end(io, p):
    table = [2 * p.width if i == 0 else i - 1 for i in range(p.width)]
    io.write("y", all_reduce(index_select(io.read("x"), table)))


def names_ranks_twice(io, p):
    everybody = list(range(p.ranks))
    io.write("y", all_reduce(_turned(io, p), "sum", [everybody, everybody]))


def sends_twice_to_one_rank(io, p):
    pairs = [(r, 0) for r in range(p.ranks)] + [(r, (r + 1) % p.ranks) for r in range(p.ranks)]
    io.write("y", all_reduce(collective_permute(_turned(io, p), pairs)))


def _turned(io, p):
    x = io.read("x")
    return concat([slice_axis(x, 0, p.width - 1, 1), slice_axis(x, 0, 0, p.width - 1)])
