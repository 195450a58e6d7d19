"""Cheats at summing several values by one call, and honest ways like them. Read as text, never executed."""

from overlayccl_core.program.language import all_reduce, concat, split


def reference(io, p):
    for name in ("a", "b", "c"):
        io.write(name + "_sum", all_reduce(io.read(name)))


def values(io):
    return [io.read("a"), io.read("b"), io.read("c")]


def write(io, totals):
    for name, total in zip(("a", "b", "c"), totals, strict=True):
        io.write(name + "_sum", total)


def hands_them_out_in_another_order(io, p):
    a, b, c = all_reduce(values(io))
    write(io, [b, a, c])


def leaves_one_out(io, p):
    a, b, c = values(io)
    aa, bb = all_reduce([a, b])
    write(io, [aa, bb, c])


def sums_one_twice(io, p):
    a, b = values(io)[:2]
    write(io, all_reduce([a, b, b]))


def sums_one_in_smaller_groups(io, p):
    a, b, c = values(io)
    half = p.ranks // 2
    parts = [range(half), range(half, p.ranks)]
    aa, bb = all_reduce([a, b])
    write(io, [aa, bb, all_reduce(c, "sum", parts)])


def takes_the_largest(io, p):
    write(io, all_reduce(values(io), "max"))


def counts_on_its_own_call(io, p):
    a, b, c = values(io)
    first = all_reduce([a, b])
    write(io, all_reduce([first[0], b, c]))


def in_two_calls_the_other_way_round(io, p):
    """Honest: the last first."""
    a, b, c = values(io)
    cc, bb = all_reduce([c, b])
    write(io, [all_reduce(a), bb, cc])


def parts_by_one_call(io, p):
    """Honest: halves of all values as a list."""
    whole = concat(values(io))
    write(io, split(concat(all_reduce(split(whole, 2))), 3))
