"""Chunks of a trace: who holds which content, and the permutes and sums that bring it there.

A schedule of transfers between ranks names chunks: stretches of equally many elements of a rank's data. Here a
`Chunk` is the content of one on one rank, and how it came about: given, moved from another rank, or added up.
`laid` turns the contents that are wanted into nodes, level by level:

- The transfers of a level depend on those of the levels before. Those between one pair of ranks are one message.
- Messages of one length are coloured like the edges of a graph: each rank sends and receives one message of a
  colour at most (Koenig 1916: as many colours as the busiest rank has messages). A colour is a collective_permute.
- Sums of a level are made once its messages are there: those of equally many terms on all ranks at once.

Contents that nobody asks for are not made.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.nodes import Node, make_permute, make_sum, make_view
from overlayccl_core.program.recorder import active

Edge = tuple[int, int]
"""Source and destination rank."""


@dataclass(eq=False, slots=True)
class Chunk:
    """The content of one chunk on one rank.

    Attributes:
        level: Transfers on its longest path.
        source: Where it was moved from; None: it was not moved.
        parts: The calls in flight that share its transfer.
        terms: What it is the sum of.
        node: The node that has it, if it was given, from the element `offset` on.
    """

    rank: int
    level: int = 0
    source: "Chunk | None" = None
    parts: int = 1
    terms: tuple["Chunk", ...] = ()
    node: Node | None = None
    offset: int = 0
    _copies: dict[tuple[int, int, int], "Chunk"] = field(default_factory=dict, repr=False)

    @property
    def below(self) -> tuple["Chunk", ...]:
        """The chunks that it is made from."""
        return (self.source,) if self.source else self.terms


@dataclass(frozen=True, slots=True)
class _Piece:
    """`length` elements of a node from `offset` on; no node: zeros."""

    node: Node | None
    offset: int
    length: int


def given(rank: int, node: Node, offset: int) -> Chunk:
    """Return the chunk that begins at an element of a node, on a rank."""
    return Chunk(rank=rank, node=node, offset=offset)


def moved(chunk: Chunk, rank: int, parts: int = 1, level: int = 0) -> Chunk:
    """Return the same content on a rank.

    Args:
        parts: The calls in flight that share its transfer.
        level: Travel with the transfers of this level, if it can be earlier.
    """
    if rank == chunk.rank:
        return chunk
    level = max(level, chunk.level + 1)
    made = chunk._copies.get((rank, parts, level))
    if made is None:
        made = Chunk(rank=rank, level=level, source=chunk, parts=parts)
        chunk._copies[rank, parts, level] = made
    return made


def added(terms: Sequence[Chunk]) -> Chunk:
    """Return the sum of chunks of one rank."""
    if len(terms) == 1:
        return terms[0]
    return Chunk(rank=terms[0].rank, level=max(x.level for x in terms), terms=tuple(terms))


def laid(size: int, wanted: Sequence[Sequence[Chunk | None]], dtype: DType = DType.FLOAT32) -> Node:
    """Return the node that has the wanted chunks, one behind the other, and issue the permutes that it takes.

    Args:
        size: Elements of a chunk.
        wanted: For each rank as many chunks; None: zeros.
        dtype: Of the chunks.
    """
    making = _Making(size, len(wanted), dtype)
    making.make([chunk for row in wanted for chunk in row if chunk])
    return making.view([[piece for chunk in row for piece in making.pieces(chunk)] for row in wanted])


def coloured(edges: Sequence[Edge], ranks: int) -> list[list[Edge]]:
    """Return different edges in classes in which a rank sends at most once and receives at most once.

    By the distance between the ranks, if that takes no more classes than needed: rotations, as rings have them.
    """
    rotations: dict[int, list[Edge]] = defaultdict(list)
    for source, destination in edges:
        rotations[(destination - source) % ranks].append((source, destination))
    busiest = max(max(Counter(edge[side] for edge in edges).values()) for side in (0, 1))
    if len(rotations) <= busiest:
        return [rotations[distance] for distance in sorted(rotations)]
    colour = _colours(edges)
    return [[edge for edge in edges if colour[edge] == c] for c in range(busiest)]


def _colours(edges: Sequence[Edge]) -> dict[Edge, int]:
    """A colour for each edge, as few as possible: where the ends of an edge miss different colours, two colours
    change places on the path that begins at its destination."""
    at: tuple[dict[int, dict[int, Edge]], ...] = (defaultdict(dict), defaultdict(dict))
    colour: dict[Edge, int] = {}

    def paint(edge: Edge, new: int) -> None:
        colour[edge] = new
        for side in (0, 1):
            at[side][edge[side]][new] = edge

    for edge in edges:
        mine, theirs = (_first_missing(at[side][edge[side]]) for side in (0, 1))
        path, side, rank, along = [], 1, edge[1], mine
        while (step := at[side][rank].get(along)) is not None:
            path.append(step)
            side, along = 1 - side, theirs if along == mine else mine
            rank = step[side]
        for step in path:
            for end in (0, 1):
                del at[end][step[end]][colour[step]]
        for step in path:
            paint(step, theirs if colour[step] == mine else mine)
        paint(edge, mine)
    return colour


def _first_missing(used: Iterable[int]) -> int:
    taken = set(used)
    return next(c for c in range(len(taken) + 1) if c not in taken)


def _reached(roots: Iterable[Chunk]) -> list[Chunk]:
    """The roots and all that they are made from, in order of levels, operands first."""
    order: dict[Chunk, None] = {}
    stack = list(dict.fromkeys(roots))[::-1]
    while stack:
        chunk = stack[-1]
        if chunk not in order and (missing := [x for x in chunk.below if x not in order]):
            stack += missing[::-1]
        else:
            order[stack.pop()] = None
    return sorted(order, key=lambda chunk: chunk.level)


class _Making:
    """Chunks being made: the pieces of nodes that have each of them."""

    def __init__(self, size: int, ranks: int, dtype: DType) -> None:
        self.dtype = dtype
        self.size = size
        self.ranks = ranks
        self._at: dict[Chunk, list[_Piece]] = {}

    def make(self, wanted: Sequence[Chunk]) -> None:
        """Make wanted chunks, and all that they are made from."""
        levels: dict[int, list[Chunk]] = defaultdict(list)
        uses = Counter(wanted)
        for chunk in _reached(wanted):
            levels[chunk.level].append(chunk)
            for below in chunk.below:
                uses[below] += 1
        for level in sorted(levels):
            arriving = [x for x in levels[level] if x.source]
            for chunk in levels[level]:
                if chunk.node:
                    self._at[chunk] = [_Piece(chunk.node, chunk.offset, self.size)]
            if arriving:
                self._exchange(arriving)
            self._add([x for x in levels[level] if x.terms], uses)

    def pieces(self, chunk: Chunk | None) -> list[_Piece]:
        """Where a chunk's elements are; None: zeros."""
        return [_Piece(None, 0, self.size)] if chunk is None else self._at[chunk]

    def view(self, rows: Sequence[Sequence[_Piece]]) -> Node:
        """The node of pieces laid end to end, a row for each rank; zeros fill up the shorter rows."""
        operands = list(dict.fromkeys(piece.node for row in rows for piece in row if piece.node))
        first, total = {}, 0
        for node in operands:
            first[node] = total
            total += node.size
        width = max(sum(piece.length for piece in row) for row in rows)
        keys, sources, lengths = [], [], []
        for rank, row in enumerate(rows):
            at = rank * width
            for piece in row:
                if piece.node:
                    keys.append(at)
                    sources.append(first[piece.node] + piece.offset)
                    lengths.append(piece.length)
                at += piece.length
        table = (np.array(column, np.int64) for column in (keys, sources, lengths))
        return make_view(operands, maps.from_pieces(len(rows), width, *table), self.dtype)

    def _exchange(self, arriving: Sequence[Chunk]) -> None:
        """Move chunks of one level."""
        messages: dict[tuple[int, int], dict[Edge, list[Chunk]]] = defaultdict(dict)
        of_pair: dict[tuple[int, Edge], list[Chunk]] = defaultdict(list)
        for chunk in arriving:
            assert chunk.source is not None
            of_pair[chunk.parts, (chunk.source.rank, chunk.rank)].append(chunk)
        number: dict[Node, int] = {}
        for (parts, edge), chunks in of_pair.items():
            chunks.sort(key=lambda chunk: self._place(chunk, number))
            messages[parts, len(chunks)][edge] = chunks
        for (parts, _), by_edge in sorted(messages.items(), key=lambda item: item[0]):
            for edges in coloured(sorted(by_edge), self.ranks):
                self._send({edge: by_edge[edge] for edge in edges}, parts)

    def _place(self, chunk: Chunk, number: dict[Node, int]) -> tuple[int, int]:
        """Where its source lies: neighbours stay neighbours in a message."""
        assert chunk.source is not None
        piece = self._at[chunk.source][0]
        assert piece.node is not None
        return number.setdefault(piece.node, len(number)), piece.offset

    def _send(self, messages: dict[Edge, list[Chunk]], parts: int) -> None:
        """Send one message of each edge, all of one length, by `parts` permutes."""
        chunks = len(next(iter(messages.values())))
        ends = np.linspace(0, chunks * self.size, parts + 1).astype(int).tolist()
        sources = [-1] * self.ranks
        rows: list[list[_Piece]] = [[] for _ in range(self.ranks)]
        for (source, destination), message in messages.items():
            sources[destination] = source
            rows[source] = [piece for x in message for piece in self.pieces(x.source)]
        recorder = active()
        whole = [sum(piece.length for piece in row) for row in rows]
        came = []
        for begin, end in pairwise(ends):
            if begin == end:
                continue
            cut = [_cut(row, begin, end) if n else [] for row, n in zip(rows, whole, strict=True)]
            node = recorder.issue(make_permute(self.view(cut), sources, recorder.label))
            came.append(_Piece(node, 0, end - begin))
        for message in messages.values():
            for i, chunk in enumerate(message):
                self._at[chunk] = _cut(came, i * self.size, (i + 1) * self.size)

    def _add(self, sums: Sequence[Chunk], uses: Counter[Chunk]) -> None:
        """Add up chunks of one level; a sum that only another sum of the level uses is part of that one."""
        here = {chunk for chunk in sums}
        # Where terms come at different levels, ranks that add alike may have them in other orders: no sum is part
        # of another then, and their sums stay alike.
        alone = {x for x in here if uses[x] == 1}
        order = {chunk: _sum_first(chunk, alone) for chunk in sums}
        together = {x for x, terms in order.items() if all(not y.source or y.level == x.level for y in terms)}
        inner = {order[x][0] for x in together} & alone & together

        def terms(chunk: Chunk) -> list[Chunk]:
            flat = order[chunk]
            while flat[0] in inner:
                flat = order[flat[0]] + flat[1:]
            return flat

        waiting = {chunk: terms(chunk) for chunk in sums if chunk not in inner}
        turn: dict[
            Chunk, int
        ] = {}  # sums of a turn are of sums of the turns before; operands come first here
        of_turn: dict[tuple[int, int], list[Chunk]] = defaultdict(list)
        for chunk, of in waiting.items():
            turn[chunk] = max((turn[x] + 1 for x in of if x in turn), default=0)
            of_turn[turn[chunk], len(of)].append(chunk)
        for key in sorted(of_turn):
            self._sums(of_turn[key], waiting, key[1])

    def _sums(self, chunks: Sequence[Chunk], terms: dict[Chunk, list[Chunk]], count: int) -> None:
        """Make sums of `count` terms each, on all ranks at once."""
        of_rank: list[list[Chunk]] = [[] for _ in range(self.ranks)]
        for chunk in chunks:
            of_rank[chunk.rank].append(chunk)
        most = max(map(len, of_rank))
        rows = [
            [piece for term in range(count) for i in range(most) for piece in self._term(row, i, term, terms)]
            for row in of_rank
        ]
        node = make_sum(self.view(rows), count)
        for row in of_rank:
            for i, chunk in enumerate(row):
                self._at[chunk] = [_Piece(node, i * self.size, self.size)]

    def _term(self, row: Sequence[Chunk], i: int, term: int, terms: dict[Chunk, list[Chunk]]) -> list[_Piece]:
        return self.pieces(terms[row[i]][term] if i < len(row) else None)


def _sum_first(chunk: Chunk, sums: set[Chunk]) -> list[Chunk]:
    """Terms; of two, one of these sums is the first: a + b and b + a are rounded alike."""
    terms = list(chunk.terms)
    return terms[::-1] if len(terms) == 2 and terms[1] in sums and terms[0] not in sums else terms


def _cut(pieces: Sequence[_Piece], begin: int, end: int) -> list[_Piece]:
    """The elements [begin, end) of pieces laid end to end."""
    cut, at = [], 0
    for piece in pieces:
        first, last = max(begin, at), min(end, at + piece.length)
        if first < last:
            cut.append(_Piece(piece.node, piece.offset + first - at, last - first))
        at += piece.length
    return cut
