"""Motifs: small pieces of Programs, each what some rewrite rules look for, or just not."""

from collections.abc import Callable

from overlayccl_core.program.calls import make_call
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import COLLECTIVES, DType, Kind
from overlayccl_core.program.nodes import (
    Node,
    make_cast,
    make_collective,
    make_permute,
    make_rowwise,
    make_sum,
)
from overlayccl_core.program.rowwise import RowAttr
from tests.rewrites.draft import Draft

Motif = Callable[[Draft], list[Node]]


def any_collective(d: Draft) -> list[Node]:
    """One collective of anything."""
    return [d.talk(d.random.choice(COLLECTIVES), d.operand(), reduction=d.reduction())]


def reduced(d: Draft) -> list[Node]:
    """An all_reduce or a reduce_scatter."""
    kind = Kind.ALL_REDUCE if d.chance(0.6) else Kind.REDUCE_SCATTER
    return [d.talk(kind, d.operand(), reduction=d.reduction())]


def gathered_shares(d: Draft) -> list[Node]:
    """AG(RS(x)); at times over other groups, under another label, of a maximum, or with something between."""
    groups, label = d.groups(), d.label()
    share = d.talk(Kind.REDUCE_SCATTER, d.operand(), groups, label, d.reduction(0.2))
    if d.chance(0.08):
        share = d.dressed(share)
    groups = d.groups() if d.chance(0.12) else groups
    return [d.talk(Kind.ALL_GATHER, share, groups, d.label() if d.chance(0.2) else label)]


def added_members(d: Draft) -> list[Node]:
    """sum(AG(x)) or sum(A2A(x)); at times of other blocks, or of values that something else reads too."""
    kind = Kind.ALL_GATHER if d.chance(0.5) else Kind.ALL_TO_ALL
    groups = d.groups()
    came = d.talk(kind, d.operand(8), groups)
    count = groups.size
    if d.chance(0.2):
        count = d.random.choice([k for k in range(1, came.size + 1) if came.size % k == 0])
    total = make_sum(d.dressed(came) if d.chance(0.05) else came, count)
    return [total, d.dressed(came)] if d.chance(0.15) else [total]


def sent_copies(d: Draft) -> list[Node]:
    """A2A of g equal blocks, laid out alike on all ranks or not; at times one element of one rank differs."""
    x, groups = d.value(6), d.groups()
    block = d.random.randint(1, x.size + 1)
    rows = d.ranks if d.chance(0.5) else 1
    if d.chance(0.4):
        table = [list(range(x.size)) * groups.size]
    else:
        table = [d.row(x.size, block) * groups.size for _ in range(rows)]
    if d.chance(0.25):
        row = d.random.choice(table)
        row[d.random.randrange(len(row))] = d.random.randrange(-1, x.size)
    return [make_collective(Kind.ALL_TO_ALL, d.view([x], table), groups, d.label())]


def added_reductions(d: Draft) -> list[Node]:
    """AR(a) + AR(b), or of RS; at times of other groups or labels, a maximum, or something else reads it too."""
    groups, label, x = d.groups(), d.label(), d.operand(8)
    kind = Kind.REDUCE_SCATTER if d.chance(0.4) else Kind.ALL_REDUCE
    if kind is Kind.REDUCE_SCATTER:
        x = d.padded(x, groups.size)
    other = d.random.choice([y for y in d.pool if y.dtype is x.dtype] or [x])
    y = d.view([other], [d.row(other.size, x.size, 0.1)])
    miss = d.random.choice(("groups", "label", "maximum", "by rank", "read")) if d.chance(0.3) else ""
    a = d.talk(kind, x, groups, label, d.reduction(0.2))
    b = d.talk(
        kind,
        y,
        d.groups() if miss == "groups" and kind is Kind.ALL_REDUCE else groups,
        d.label() if miss == "label" else label,
        d.reduction(0.9 if miss == "maximum" else 0.0),
    )
    both = a.size + b.size
    table = [[*range(both)]]
    if miss == "by rank":
        table = [[d.random.randrange(both) for _ in range(both)] for _ in range(d.ranks)]
    elif d.chance(0.2):
        table = [d.row(both, both, 0.1)]
    total = make_sum(d.view([d.scaled(a) if d.chance(0.3) else a, b], table), 2)
    return [total, d.dressed(a)] if miss == "read" else [total]


def equal_copies(d: Draft) -> list[Node]:
    """A collective of values that are equal in its groups, or in others, or but for one rank."""
    groups = d.groups()
    x = d.value(8)
    if d.chance(0.7):
        over = groups if d.chance(0.85) else d.groups()
        x = d.talk(d.random.choice((Kind.ALL_REDUCE, Kind.ALL_GATHER)), x, over)
    if d.chance(0.4):
        rows = [d.row(x.size, 4) for _ in range(d.ranks if d.chance(0.4) else len(groups.members))]
        table = rows if len(rows) == d.ranks else [list(rows[g]) for g in groups.group]
        if d.chance(0.2):
            table[d.random.randrange(d.ranks)][0] = d.random.randrange(x.size)
        x = d.view([x], table)
    kind = d.random.choice(COLLECTIVES[:4])
    return [d.talk(kind, x, groups, reduction=d.reduction())]


def disjoint_parts(d: Draft) -> list[Node]:
    """AR of what each member has in slots of its own; at times two members share one, or all hold nothing."""
    x, groups, slots = d.value(6), d.groups(), d.random.randint(2, 6)
    table = [[-1] * slots for _ in range(d.ranks)]
    for group in groups.members:
        empty = 0.1 if d.chance(0.9) else 1.0
        for slot in range(slots):
            if not d.chance(empty):
                table[d.random.choice(group)][slot] = d.random.randrange(x.size)
    if d.chance(0.25):
        table[d.random.randrange(d.ranks)][d.random.randrange(slots)] = d.random.randrange(x.size)
    if d.chance(0.1):  # what one rank receives, and nobody else
        receiver, source = d.random.randrange(d.ranks), d.random.randrange(d.ranks)
        pairs = [source if r == receiver else -1 for r in range(d.ranks)]
        parts = make_permute(x, pairs, d.label())
    else:
        parts = d.view([x], table)
    if d.chance(0.2):
        parts = make_cast(d.scaled(parts), parts.dtype)
    return [d.talk(Kind.ALL_REDUCE, parts, groups, reduction=d.reduction(0.2))]


def read_by_views(d: Draft, came: Node, table: list[list[int]]) -> list[Node]:
    """Views that read `came` by the table; at times in two parts, or read by something else as well."""
    if d.chance(0.2) and len(table[0]) > 1:
        cut = d.random.randrange(1, len(table[0]))
        views = [d.view([came], [row[:cut] for row in table]), d.view([came], [row[cut:] for row in table])]
    else:
        views = [d.view([came], table)]
    if d.chance(0.15):
        views.append(came if d.chance(0.6) else d.dressed(came))
    return views


def gathered_little(d: Draft) -> list[Node]:
    """AG of which each rank reads a few elements, from anybody."""
    groups = d.groups()
    came = d.talk(Kind.ALL_GATHER, d.operand(6), groups)
    length = d.random.randint(1, 5)
    if d.chance(0.3):
        return read_by_views(d, came, [d.row(came.size, length)])
    return read_by_views(d, came, [d.row(came.size, length) for _ in range(d.ranks)])


def gathered_from_one(d: Draft) -> list[Node]:
    """AG of which each rank reads one member's block, each another's; at times two read the same one."""
    groups = d.groups()
    came = d.talk(Kind.ALL_GATHER, d.operand(6), groups)
    block = came.size // groups.size
    turn = list(range(groups.size))
    d.random.shuffle(turn)
    own, some = d.chance(0.3), d.chance(0.5)
    table = []
    for rank in range(d.ranks):
        place = int(groups.place[rank])
        start = turn[place] * block
        row = list(range(start, start + block))
        if some:
            row = [i if d.chance(0.8) else -1 for i in row]
        if d.chance(0.1):
            row = [-1] * block
        row += [place * block + i for i in range(block)] if own else []
        table.append(row)
    if d.chance(0.2):
        table[d.random.randrange(d.ranks)] = [d.random.randrange(came.size) for _ in table[0]]
    return read_by_views(d, came, table)


def gathered_in_parts(d: Draft) -> list[Node]:
    """AG over a group of which each rank reads members of its own part only; parts of equal size or not."""
    groups = d.groups(4 if d.chance(0.9) else 2, shuffled=d.chance(0.4))
    came = d.talk(Kind.ALL_GATHER, d.operand(4), groups)
    block = came.size // groups.size
    sizes = [k for k in range(2, groups.size + 1) if groups.size % k == 0]
    part = d.random.choice(sizes[:-1] or [groups.size])
    order = list(range(groups.size))
    d.random.shuffle(order)
    position = {place: i for i, place in enumerate(order)}
    table = []
    for rank in range(d.ranks):
        first = position[int(groups.place[rank])] // part * part
        places = order[first : first + part]
        table.append([p * block + i for p in places for i in range(block)])
    if d.chance(0.2):
        table[d.random.randrange(d.ranks)][0] = d.random.randrange(came.size)
    if d.chance(0.3):
        table = [[i if d.chance(0.9) else -1 for i in row] for row in table]
    return read_by_views(d, came, table)


def reduced_and_cut(d: Draft) -> list[Node]:
    """AR of which each rank reads a part: its share, about its share, or a little more."""
    groups = d.groups()
    came = d.talk(Kind.ALL_REDUCE, d.padded(d.operand(), groups.size), groups, reduction=d.reduction())
    share = max(1, came.size // groups.size)
    if d.chance(0.5):
        table = [[int(p) * share + i for i in range(share)] for p in groups.place]
    else:
        length = d.random.randint(1, share + d.chance(0.2))
        table = [d.row(came.size, length, 0.1) for _ in range(d.ranks)]
    return read_by_views(d, came, table)


def sent_padded(d: Draft) -> list[Node]:
    """AG or A2A of a layout that is larger than what it lays out: zeros, repetitions; at times no larger."""
    x, groups = d.value(4), d.groups()
    g = groups.size
    rows = d.ranks if d.chance(0.3) else 1
    gathers = d.chance(0.6)
    operands = [x, d.value(3)] if d.chance(0.2) else [x]
    if operands[-1].dtype is not x.dtype:
        operands = [x]
    total = sum(y.size for y in dict.fromkeys(operands))
    if gathers:
        size = total + d.random.randint(-1, 3)
        tables = [d.row(total, max(size, 1), 0.3) for _ in range(rows)]
        return [d.talk(Kind.ALL_GATHER, d.view(list(dict.fromkeys(operands)), tables), groups)]
    block = d.random.randint(1, 2)
    x = d.view([x], [[i % x.size for i in range(g * block)]]) if d.chance(0.4) else x
    base = d.talk(Kind.COLLECTIVE_PERMUTE, d.padded(x, g)) if d.chance(0.3) else d.padded(x, g)
    each = base.size // g
    tables = []
    for _ in range(rows):
        inside = d.row(each, each + d.random.randint(0, 1) if rows == 1 else each + 1, 0.3)
        if d.chance(0.2):
            inside[0] = d.random.randrange(base.size) % max(each, 1)
        tables.append([j * each + i if i >= 0 else -1 for j in range(g) for i in inside])
    if d.chance(0.15):
        tables[0][0] = d.random.randrange(base.size)
    return [make_collective(Kind.ALL_TO_ALL, d.view([base], tables), groups, d.label())]


def several_alike(d: Draft) -> list[Node]:
    """Collectives of one kind on different values; at times one has other groups, label, dtype or reduction."""
    kind, groups, label = d.random.choice(COLLECTIVES), d.groups(), d.label()
    reduction, partners = d.reduction(0.3), d.partners()
    alike = []
    for x in d.random.choices(d.pool, k=d.random.randint(2, 5)):
        x = d.view([x], [d.row(x.size, d.random.randint(1, 12), 0.1)]) if d.chance(0.5) else x
        small = x if x.size <= 12 else d.view([x], [list(range(12))])
        small = make_cast(small, d.random.choice(list(type(x.dtype)))) if d.chance(0.1) else small
        if kind is Kind.COLLECTIVE_PERMUTE:
            sources = d.partners() if d.chance(0.1) else partners
            alike.append(make_permute(small, sources, d.label() if d.chance(0.15) else label))
            continue
        alike.append(
            d.talk(
                kind,
                small,
                d.groups() if d.chance(0.1) else groups,
                d.label() if d.chance(0.15) else label,
                d.reduction() if d.chance(0.15) else reduction,
            )
        )
    return alike


def one_call(d: Draft) -> list[Node]:
    """all_reduces of different values by one call; at times of one value twice, or one value scaled."""
    groups, label, reduction = d.groups(), d.label(), d.reduction()
    operands = [d.operand(12) for _ in range(d.random.randint(2, 4))]
    alike = [x for x in operands if x.dtype is operands[0].dtype]
    return make_call(Kind.ALL_REDUCE, alike, groups, label, reduction)


def computed_of_gathered(d: Draft) -> list[Node]:
    """What is computed of a gather whose rows are joined: elements, rows, a lookup; at times it just misses.

    x of each member is `rows` of `width` elements; joined, a row has those of all members.
    """
    groups = d.groups(2 if d.chance(0.95) else 1)
    rows, width = d.random.choice(((1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (1, 3)))
    x = d.view([y := d.value()], [[d.random.randrange(y.size) for _ in range(rows * width)]])
    x = make_cast(x, DType.FLOAT32) if x.dtype.bytes < 4 else x
    came = make_collective(Kind.ALL_GATHER, x, groups, d.label())
    g, wide = groups.size, groups.size * width
    table = [[(m * rows + r) * width + i for r in range(rows) for m in range(g) for i in range(width)]]
    match d.random.choice(("", "", "", "shuffled", "some", "padded", "padded", "twice", "by rank", "flat")):
        case "shuffled":
            d.random.shuffle(table[0])
        case "some" if len(table[0]) > 1:
            table[0][d.random.randrange(len(table[0]))] = -1
        case "padded":
            table = [[i for r in range(rows) for i in (*table[0][r * wide : (r + 1) * wide], -1)]]
            wide += 1
        case "twice":
            table[0][d.random.randrange(len(table[0]))] = d.random.randrange(len(table[0]))
        case "by rank":
            table = [d.random.sample(table[0], len(table[0])) for _ in range(d.ranks)]
        case "flat":
            table = [list(range(came.size))]
    joined = d.view([came], table)
    joined = d.scaled(joined) if d.chance(0.15) else joined
    made = [_of_joined(d, joined, rows, wide, groups)]
    return [*made, came] if d.chance(0.1) else made


def _of_joined(d: Draft, joined: Node, rows: int, width: int, groups: Groups) -> Node:
    """Something that is computed of rows that were gathered."""
    if d.linear:
        if d.chance(0.5):
            return make_cast(joined, d.random.choice((DType.FLOAT64, DType.BFLOAT16)))
        turned = [[r * width + i for i in range(width) for r in range(rows)]]
        return make_sum(d.view([joined], turned) if d.chance(0.8) else joined, width)
    form = d.random.choice(("exp", "sub", "sub", "row_sum", "row_max", "row_max", "pick"))
    if form == "exp":
        return make_rowwise(RowAttr(name="exp"), [joined])
    if form in ("row_sum", "row_max"):
        return make_rowwise(RowAttr(name=form, width=width), [joined])
    if form == "pick" and d.ids is not None:
        by_rank = d.chance(0.1)
        ids = d.view(
            [d.ids], [[d.random.randrange(6) for _ in range(rows)] for _ in range(d.ranks if by_rank else 1)]
        )
        first = [d.random.randrange(3) for _ in range(d.ranks if d.chance(0.15) else 1)]
        return make_rowwise(RowAttr(name="pick", width=width, first=tuple(first)), [joined, ids])
    size = d.random.choice((rows, rows, rows * width))
    other = d.value()
    other = make_cast(d.view([other], [d.row(other.size, size, 0.1)]), joined.dtype)
    if d.chance(0.7):
        other = make_collective(Kind.ALL_REDUCE, other, groups, d.label())
    operands = [joined, other] if d.chance(0.7) else [other, joined]
    return make_rowwise(RowAttr(name="sub", width=1 if size == joined.size else width), operands)


def sent_around(d: Draft) -> list[Node]:
    """Permutes of one value, straight or handed on, laid out beside it; at times some are of another."""
    groups, label, handed_on = d.groups(2), d.label(), d.chance(0.5)
    x = d.value(6)
    came: list[Node] = []
    to_itself = d.chance(0.1)
    for _ in range(d.random.randint(2, 3)):
        distance = d.random.randint(1, groups.size - 1)
        sources = groups.array[groups.group, (groups.place - distance) % groups.size].tolist()
        if to_itself:
            sources = list(range(d.ranks))
        elif d.chance(0.15):
            sources = d.partners()
        elif d.chance(0.2):
            sources = [s if d.chance(0.8) else -1 for s in sources]
        sent = came[-1] if handed_on and came else x
        if not handed_on and d.chance(0.6):
            length = d.random.randint(1, x.size)
            rows = d.ranks if d.chance(0.5) else 1
            sent = d.view([x], [d.row(x.size, length, 0.1) for _ in range(rows)])
        if d.chance(0.05):
            sent = d.value(6)
        came.append(make_permute(sent, sources, d.label() if d.chance(0.1) else label))
    if d.chance(0.15):
        return came
    values = [*came, x] if d.chance(0.7) else came
    if len({y.dtype for y in values}) > 1:
        return came
    total = sum(y.size for y in dict.fromkeys(values))
    kept = d.random.randrange(x.size)
    table = [[*range(total - x.size), total - x.size + kept] for _ in range(d.ranks)]
    if d.chance(0.7):
        table = [[*d.row(total, 4, 0.1), d.random.randrange(total)] for _ in range(d.ranks)]
    return [d.view(list(dict.fromkeys(values)), table)]


MOTIFS: tuple[Motif, ...] = (
    any_collective,
    reduced,
    gathered_shares,
    added_members,
    sent_copies,
    added_reductions,
    equal_copies,
    disjoint_parts,
    gathered_little,
    gathered_from_one,
    gathered_in_parts,
    reduced_and_cut,
    sent_padded,
    several_alike,
    one_call,
    computed_of_gathered,
    sent_around,
)
WEIGHTS = (1, 1, 5, 9, 5, 9, 1, 4, 4, 2, 5, 4, 2, 4, 2, 7, 9)
