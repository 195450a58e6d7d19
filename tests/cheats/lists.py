"""Cheats at summing several values by one call, and honest ways like them. Read as text, never executed."""

from overlayccl_core.program.language import all_reduce, concat, split


def reference(io, p):
    for name in ("a", "b", "c"):
        io.write(name + "_sum", all_reduce(io.read(name)))


def _values(io):
    return [io.read("a"), io.read("b"), io.read("c")]


def _write(io, totals):
    for name, total in zip(("a", "b", "c"), totals, strict=True):
        io.write(name + "_sum", total)


def hands_them_out_in_another_order(io, p):
    """Results of one call change places: shapes are the same, and so are sums of ones.
    Stopped as WRONG_VALUE by INDEPENDENT_PORTS."""
    a, b, c = all_reduce(_values(io))
    _write(io, [b, a, c])


def leaves_one_out(io, p):
    """One value is not in the list. Stopped as WRONG_VALUE."""
    a, b, c = _values(io)
    aa, bb = all_reduce([a, b])
    _write(io, [aa, bb, c])


def sums_one_twice(io, p):
    """One is handed out twice. Stopped as WRONG_VALUE by INDEPENDENT_PORTS."""
    a, b = _values(io)[:2]
    _write(io, all_reduce([a, b, b]))


def sums_one_in_smaller_groups(io, p):
    """One is summed over half of the ranks. Stopped as WRONG_VALUE."""
    a, b, c = _values(io)
    half = p.ranks // 2
    parts = [range(half), range(half, p.ranks)]
    aa, bb = all_reduce([a, b])
    _write(io, [aa, bb, all_reduce(c, "sum", parts)])


def takes_the_largest(io, p):
    """The largest of what ranks hold, where a sum is asked for. Stopped as NOT_LINEAR."""
    _write(io, all_reduce(_values(io), "max"))


def counts_on_its_own_call(io, p):
    """One is summed twice. Stopped as WRONG_VALUE."""
    a, b, c = _values(io)
    first = all_reduce([a, b])
    _write(io, all_reduce([first[0], b, c]))


def in_two_calls_the_other_way_round(io, p):
    """Honest: the last first."""
    a, b, c = _values(io)
    cc, bb = all_reduce([c, b])
    _write(io, [all_reduce(a), bb, cc])


def parts_by_one_call(io, p):
    """Honest: halves of all values as a list."""
    whole = concat(_values(io))
    _write(io, split(concat(all_reduce(split(whole, 2))), 3))
