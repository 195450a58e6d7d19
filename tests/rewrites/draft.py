"""What motifs are made with: values to start from, groups, labels and layouts, drawn at random."""

from fractions import Fraction
from random import Random

from overlayccl_core.program import maps
from overlayccl_core.program.groups import Groups, contiguous, groups_of, strided, world
from overlayccl_core.program.kinds import FLOATS, Kind, Label, Reduction
from overlayccl_core.program.nodes import (
    Node,
    make_cast,
    make_collective,
    make_permute,
    make_scale,
    make_sum,
    make_view,
)

LARGEST = 64  # elements of a value on a rank
RATIOS = (2, 3, -1, Fraction(1, 4), Fraction(2, 3))


class Draft:
    """What motifs are made with: values to start from, groups, labels, layouts, all drawn from `random`."""

    def __init__(
        self,
        random: Random,
        machine: tuple[int, int],
        labels: tuple[Label, ...],
        pool: list[Node],
        *,
        linear: bool,
        ids: Node | None = None,
    ) -> None:
        self.random = random
        self.ranks, self.ranks_per_node = machine
        self.labels = labels
        self.pool = pool
        self.linear = linear
        self.ids = ids

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    # ---------------------------------------------------------------------------------- what is drawn
    def groups(self, least: int = 1, *, shuffled: bool = False) -> Groups:
        """The world, a tier, groups that are no tier, members out of order, groups of one rank.

        least: how many members there should be; else, or if `shuffled`, one group of all.
        """
        groups = self._groups()
        if groups.size >= least and not shuffled:
            return groups
        order = list(range(self.ranks))
        return groups_of([self.random.sample(order, self.ranks) if shuffled else order], self.ranks)

    def _groups(self) -> Groups:
        n, r = self.ranks, self.ranks_per_node
        order = list(range(n))
        self.random.shuffle(order)
        g = self.random.choice([k for k in range(2, n + 1) if n % k == 0])
        match self.random.randrange(10):
            case 0 | 1 | 2 | 3:
                return world(n)
            case 4 | 5 if r < n:
                return self.random.choice((contiguous, strided))(n, r)
            case 6:
                return groups_of([order], n)
            case 7 if self.chance(0.3):
                return groups_of([[rank] for rank in order], n)
            case _:
                return groups_of([order[i : i + g] for i in range(0, n, g)], n)

    def label(self) -> Label:
        """One of the Program's labels."""
        return self.random.choice(self.labels)

    def reduction(self, maximum: float = 0.3) -> Reduction:
        """A sum, or with this probability a maximum where the Problem allows it."""
        return Reduction.MAX if not self.linear and self.chance(maximum) else Reduction.SUM

    def value(self, largest: int = LARGEST // 4) -> Node:
        """A value to start from, at most `largest` elements."""
        x = self.random.choice(self.pool)
        return x if x.size <= largest else self.view([x], [self._window(x.size, largest)])

    def operand(self, largest: int = LARGEST // 4) -> Node:
        """A value, or something made of values here."""
        x = self.value(largest)
        return self.dressed(x) if self.chance(0.45) else x

    # ------------------------------------------------------------------------------------ what is made
    def talk(
        self,
        kind: Kind,
        x: Node,
        groups: Groups | None = None,
        label: Label | None = None,
        reduction: Reduction = Reduction.SUM,
    ) -> Node:
        """A collective; x is padded where its elements must divide over the group."""
        label = self.label() if label is None else label
        if kind is Kind.COLLECTIVE_PERMUTE:
            return make_permute(x, self.partners(), label)
        groups = self.groups() if groups is None else groups
        if kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL):
            x = self.padded(x, groups.size)
        return make_collective(kind, x, groups, label, reduction)

    def partners(self) -> list[int]:
        """Sources of a permute: who receives nothing has -1."""
        order = list(range(self.ranks))
        self.random.shuffle(order)
        return [source if self.chance(0.8) else maps.ZERO for source in order]

    def view(self, operands: list[Node], table: list[list[int]]) -> Node:
        """A view by a table of source indices, one row or one for each rank."""
        return make_view(operands, maps.from_table(table))

    def padded(self, x: Node, parts: int) -> Node:
        """x with zeros behind it up to a multiple of `parts`, at times `parts` more."""
        size = -(-x.size // parts) * parts + (parts if self.chance(0.15) else 0)
        return x if size == x.size else self.view([x], [[*range(x.size), *[-1] * (size - x.size)]])

    def scaled(self, x: Node) -> Node:
        """x times a small ratio."""
        return make_scale(x, self.random.choice(RATIOS))

    def dressed(self, x: Node) -> Node:
        """x under a layout, a scale, a cast or a sum."""
        match self.random.randrange(10):
            case 0 | 1:
                return self.scaled(x)
            case 2:
                return make_cast(x, self.random.choice(FLOATS))
            case 3:
                return make_sum(self.padded(x, 2), 2)
            case 4:
                alike = [y for y in self.pool if y.dtype is x.dtype]
                y = self.random.choice(alike or [x])
                return self.view([x, y, x][: self.random.randint(2, 3)], [self._mixed(2 * x.size + y.size)])
            case 5:
                length = self.random.randint(1, x.size)
                return self.view([x], [self._window(x.size, length) for _ in range(self.ranks)])
            case 6:
                return make_view([x], maps.copies(x.size, 2))
            case 7:
                mask = [self.chance(0.6) for _ in range(self.ranks)]
                return make_view([x], maps.on_ranks(mask, x.size))
            case _:
                length = self.random.randint(1, x.size + 2)
                rows = self.ranks if self.chance(0.5) else 1
                return self.view([x], [self.row(x.size, length) for _ in range(rows)])

    def _mixed(self, size: int) -> list[int]:
        """Up to 8 elements of [x, y] or [x, y, x]: those of the first two are always there."""
        some = max(1, size // 2)
        return [self.random.randrange(some) for _ in range(min(some, 8))]

    def _window(self, size: int, length: int) -> list[int]:
        start = self.random.randrange(size - length + 1)
        return list(range(start, start + length))

    def row(self, size: int, length: int, empty: float = 0.25) -> list[int]:
        """`length` sources below `size`, some of them zeros."""
        return [-1 if self.chance(empty) else self.random.randrange(size) for _ in range(length)]
