"""Atoms: stretches of elements that no operation of a Program cuts.

Every operation moves, adds or scales whole stretches, position by position. Cut every value wherever an operation
cuts it, and carry the cuts along all operations both ways until nothing changes: each value is then a row of
atoms, and an operation sends whole atoms to whole atoms of the same width. So on elements P = P' (x) Id(width):
position e inside an atom never meets another position. Hence P = R for all inputs iff P' = R' for all inputs. P'
is the SAME graph with its runs renumbered in atoms: a proof over atoms proves the Program at its own shapes,
without retracing. (P and its reference R are cut together, so R too acts on whole atoms.)

Blocks: one width for all connected values, a gcd found in one pass. Intervals: the smallest closed set of cuts,
found by a worklist; needed if padding or odd sizes make the gcd tiny. Blocks first: ragged tables make many cuts,
and a gcd forgets them at once.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.map_algebra import ragged, split_sources
from overlayccl_core.program.maps import Ints, Map
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.nodes import Node, Outputs, Port, make_input, make_view, rebuild, topological
from overlayccl_core.program.problem import PortSpec, Problem

MAX_CUTS = 2**20  # of one value
ATOMS_PER_PIECE = 8
MAX_CARRIED = 2**24  # along one relation: 128 MiB of positions
MAX_SEEN = 2**24  # cuts visited until no new ones appear: strategies of 224 ranks need less than 2**20

Ties = Sequence[tuple[Node, Node]]
Ends = Mapping[Node, Ints]  # more cuts of a value: behind its valid elements
Valid = Mapping[Port, Ints]  # valid leading atoms on each rank; a port not here is all valid
Relation = tuple[Node, Ints, Ints, Ints]


class Blocks:
    """Cuts every `width` elements."""

    def __init__(self, width: int, size: int) -> None:
        self.width = width
        self.count = size // width

    def index(self, positions: Ints) -> Ints:
        """Return the atoms beginning at these positions."""
        return positions // self.width

    def start(self, atoms: Ints) -> Ints:
        """Return the first element of each atom; for atom `count`, the size."""
        return atoms * self.width


class Intervals:
    """Cuts at the sorted `positions`, 0 and the size among them."""

    def __init__(self, positions: Ints) -> None:
        self.positions = positions
        self.count = len(positions) - 1

    def index(self, positions: Ints) -> Ints:
        """Return the atoms beginning at these positions."""
        atoms: NDArray[np.int64] = np.searchsorted(self.positions, positions)
        return atoms

    def start(self, atoms: Ints) -> Ints:
        """Return the first element of each atom; for atom `count`, the size."""
        return self.positions[atoms]


Cuts = Blocks | Intervals  # of one value into `count` atoms
_NOWHERE = np.zeros(0, np.int64)
Cutter = Callable[[list[Node], Ties, Ends], dict[Node, Cuts]]


# --------------------------------------------------------------------------------- what is tied to what
def relations(x: Node) -> list[Relation]:
    """(operand, destinations, sources, lengths): x[d : d + n] comes from operand[s : s + n] on some rank."""
    if not x.operands:
        return []
    if x.kind is Kind.VIEW:
        return _view_relations(x)
    y = x.operands[0]
    match x.kind:
        case Kind.ALL_GATHER:
            return [(y, *_tied_blocks(x.size, y.size, moving_result=True))]
        case Kind.REDUCE_SCATTER | Kind.SUM:
            return [(y, *_tied_blocks(y.size, x.size, moving_result=False))]
        case Kind.ALL_TO_ALL:
            block = x.size // x.groups.size
            return [(y, *_tied_blocks(x.size, block, moving_result=to)) for to in (True, False)]
        case _:
            return [(y, np.array([0]), np.array([0]), np.array([x.size]))]


def _tied_blocks(total: int, block: int, *, moving_result: bool) -> tuple[Ints, Ints, Ints]:
    """Every block of the larger value is tied to the first block of the other."""
    moving = np.arange(0, total, block)
    fixed = np.zeros_like(moving)
    lengths = np.full_like(moving, block)
    return (moving, fixed, lengths) if moving_result else (fixed, moving, lengths)


def _view_relations(x: Node) -> list[Relation]:
    ends = np.cumsum([y.size for y in x.operands])
    _, d, s, n = split_sources(x.map, ends)
    if x.map.rows > 1:
        order = np.lexsort((n, s, d))  # np.unique of columns took three times as long
        rows = np.stack([d, s, n])[:, order]
        d, s, n = rows[:, np.append(True, (rows[:, 1:] != rows[:, :-1]).any(0))]
    which = np.searchsorted(ends, s, "right")
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(x.operands) + 1))
    relations = []
    for i, y in enumerate(x.operands):
        pick = order[bounds[i] : bounds[i + 1]]
        relations.append((y, d[pick], s[pick] - (ends[i] - y.size), n[pick]))
    return relations


class DisjointSets:
    """Nodes, each in a set of its own until joined with others (union-find)."""

    def __init__(self, members: Iterable[Node]) -> None:
        self._parent = {x: x for x in members}

    def root(self, x: Node) -> Node:
        """The representative of the set of x."""
        parent = self._parent
        while parent[x] is not x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    def join(self, x: Node, y: Node) -> None:
        """Join the sets of x and y."""
        self._parent[self.root(x)] = self.root(y)


# ------------------------------------------------------------------------------------------------ blocks
def block_cuts(order: list[Node], ties: Ties, ends: Ends) -> dict[Node, Cuts]:
    """Return Blocks for each node, of the largest width fitting its connected part of the graph.

    Args:
        order: Nodes, operands first.
        ties: Pairs of nodes of equal size, to be cut alike.
        ends: More cuts of some nodes.
    """
    sets = DisjointSets(order)
    own: dict[Node, int] = {}
    for x in order:
        own[x] = math.gcd(x.size, *ends.get(x, _NOWHERE).tolist())
        for y, d, s, n in relations(x):
            sets.join(x, y)
            own[x] = math.gcd(own[x], int(np.gcd.reduce(np.concatenate([d, s, n]))))
    for x, y in ties:
        sets.join(x, y)
    width: dict[Node, int] = {}
    for x in order:
        width[sets.root(x)] = math.gcd(width.get(sets.root(x), 0), own[x])
    return {x: Blocks(width[sets.root(x)], x.size) for x in order}


# --------------------------------------------------------------------------------------------- intervals
def interval_cuts(order: list[Node], ties: Ties, ends: Ends) -> dict[Node, Cuts]:
    """Return Intervals for each node: the smallest sets of cuts closed under all relations, both ways.

    Raises:
        TooLarge: One value has more than MAX_CUTS cuts, or cuts bring forth cuts with no end in sight: a value
            tied to itself rotated by one gets one cut at a time.
    """
    known = {x: relations(x) for x in order}
    alike = _cut_alike(order, ties, known)
    cuts = {alike.root(x): np.array([0, x.size]) for x in order}
    for x, positions in ends.items():
        cuts[alike.root(x)] = np.union1d(cuts[alike.root(x)], positions)
    edges: list[_Edge] = []
    for x in order:
        for y, d, s, n in known[x]:
            a, b = alike.root(x), alike.root(y)
            if a is b and len(d) == 1 and d[0] == s[0] == 0:
                continue
            edges.append((a, b, d, s, n))
            cuts[a] = np.unique(np.concatenate([cuts[a], d, d + n]))
            cuts[b] = np.unique(np.concatenate([cuts[b], s, s + n]))
    _close(cuts, edges)
    return {x: Intervals(cuts[alike.root(x)]) for x in order}


_Edge = tuple[Node, Node, Ints, Ints, Ints]


def _cut_alike(order: list[Node], ties: Ties, known: dict[Node, list[Relation]]) -> DisjointSets:
    """Sets of values surely cut alike: operands and results of elementwise operations, and ties."""
    sets = DisjointSets(order)
    for x in order:
        for y, d, s, n in known[x]:
            if len(n) == 1 and d[0] == s[0] == 0 and n[0] == x.size == y.size:
                sets.join(x, y)
    for x, y in ties:
        sets.join(x, y)
    return sets


def _close(cuts: dict[Node, Ints], edges: list[_Edge]) -> None:
    touching: dict[Node, list[int]] = {}
    for i, (x, y, *_) in enumerate(edges):
        touching.setdefault(x, []).append(i)
        touching.setdefault(y, []).append(i)
    todo = list(range(len(edges)))
    queued = set(todo)
    seen = 0
    while todo:
        i = todo.pop()
        queued.discard(i)
        x, y, d, s, n = edges[i]
        seen += len(cuts[x]) + len(cuts[y])
        if seen > MAX_SEEN:
            raise TooLarge(f"cuts that bring forth cuts: {seen} looked at (limit {MAX_SEEN})")
        for a, b, start, to in ((x, y, d, s), (y, x, s, d)):
            if _carry(cuts, a, b, start, to, n):
                fresh = [j for j in touching[b] if j not in queued]
                queued.update(fresh)
                todo.extend(fresh)


def _carry(cuts: dict[Node, Ints], a: Node, b: Node, start: Ints, to: Ints, length: Ints) -> bool:
    """Carry the cuts of a inside [start, start + length) to b; True if b got new ones."""
    first = np.searchsorted(cuts[a], start, "left")
    count = np.searchsorted(cuts[a], start + length, "right") - first
    if int(count.sum()) > MAX_CARRIED:
        raise TooLarge(f"{int(count.sum())} cuts to carry (limit {MAX_CARRIED})")
    piece, nth = ragged(count)
    moved = np.unique(cuts[a][first[piece] + nth] + (to - start)[piece])
    place = np.minimum(np.searchsorted(cuts[b], moved), len(cuts[b]) - 1)
    new = moved[cuts[b][place] != moved]
    if len(cuts[b]) + len(new) > MAX_CUTS:
        raise TooLarge(f"a value with {len(cuts[b]) + len(new)} cuts (limit {MAX_CUTS})")
    if len(new):
        cuts[b] = np.sort(np.concatenate([cuts[b], new]))
    return len(new) > 0


# ------------------------------------------------------------------------------ the same graph over atoms
def _resized(
    order: Iterable[Node], size: Callable[[Node], int], layout: Callable[[Node], Map]
) -> dict[Node, Node]:
    """Return, for each old node, the same operation with inputs of other sizes and views by other maps."""
    new: dict[Node, Node] = {}
    for x in order:
        operands = [new[y] for y in x.operands]
        if x.kind is Kind.INPUT:
            new[x] = make_input(x.port, equal=x.attr.equal, size=size(x), dtype=x.dtype)
        elif x.kind is Kind.VIEW:
            new[x] = make_view(operands, layout(x), x.dtype)
        else:
            new[x] = rebuild(x, operands)
    return new


def _renumbered(x: Node, cuts: dict[Node, Cuts]) -> Map:
    row, local = np.divmod(x.map.keys, x.size)
    keys = row * cuts[x].count + cuts[x].index(local)
    sources = np.full(len(keys), maps.ZERO)
    base = new_base = 0
    for y in x.operands:
        mine = (x.map.sources >= base) & (x.map.sources < base + y.size)
        sources[mine] = new_base + cuts[y].index(x.map.sources[mine] - base)
        base += y.size
        new_base += cuts[y].count
    return Map(x.map.rows, cuts[x].count, keys, sources)


def widened(outputs: Outputs, lanes: int) -> Outputs:
    """Return the same graph with `lanes` elements in place of each: P (x) Id(lanes)."""

    def wide(x: Node) -> Map:
        sources = np.where(x.map.sources < 0, maps.ZERO, x.map.sources * lanes)
        return Map(x.map.rows, x.size * lanes, x.map.keys * lanes, sources)

    new = _resized(topological(outputs.values()), lambda x: x.size * lanes, wide)
    return {port: new[x] for port, x in outputs.items()}


class AtomPair:
    """Outputs of a Program and of its reference over common atoms.

    Starts with elements; each `cut` makes coarser atoms. No atom is valid in part.

    Attributes:
        outputs, wanted: port -> node over atoms, of the Program and of the reference.
        valid_inputs, valid_outputs: port -> valid leading atoms on each rank.
    """

    def __init__(
        self,
        outputs: Outputs,
        wanted: Outputs,
        valid_inputs: Valid | None = None,
        valid_outputs: Valid | None = None,
    ) -> None:
        self.outputs = outputs
        self.wanted = wanted
        self.valid_inputs = valid_inputs or {}
        self.valid_outputs = valid_outputs or {}
        self._levels: list[list[dict[Port, Cuts]]] = []  # each: of inputs, of outputs
        self._order: list[Node] = []  # made on demand

    @classmethod
    def of(cls, problem: Problem, outputs: Outputs, wanted: Outputs) -> "AtomPair":
        """Make the pair with the valid elements of a Problem's ports."""
        pair = cls(outputs, wanted)
        pair.valid_inputs = _valid(pair.inputs, problem.inputs)
        pair.valid_outputs = _valid(outputs, problem.outputs)
        return pair

    @property
    def order(self) -> list[Node]:
        """All nodes of both, operands first."""
        if not self._order:
            self._order = topological([*self.outputs.values(), *self.wanted.values()])
        return self._order

    @property
    def inputs(self) -> dict[Port, Node]:
        """port -> input over atoms, of both."""
        return {x.port: x for x in self.order if x.kind is Kind.INPUT}

    @property
    def is_too_fine(self) -> bool:
        """True if atoms are far finer than the pieces moved; `interval_cuts` then finds far fewer."""
        pieces = sum(len(n) for x in self.order for _, _, _, n in relations(x))
        return ATOMS_PER_PIECE * pieces < self.largest

    @property
    def largest(self) -> int:
        """Atoms of the largest value on one rank."""
        return max(x.size for x in self.order)

    def cut(self, cutter: Cutter) -> None:
        """Replace the graph by the one over the atoms found by `cutter`: block_cuts or interval_cuts."""
        ties = [(x, self.wanted[p]) for p, x in self.outputs.items() if x is not self.wanted[p]]
        order, inputs = self.order, self.inputs
        cuts = cutter(order, ties, self._ends())
        self.valid_inputs = {p: cuts[inputs[p]].index(n) for p, n in self.valid_inputs.items()}
        self.valid_outputs = {p: cuts[self.outputs[p]].index(n) for p, n in self.valid_outputs.items()}
        new = _resized(order, lambda x: cuts[x].count, lambda x: _renumbered(x, cuts))
        self._levels.append([{p: cuts[x] for p, x in ports.items()} for ports in (inputs, self.outputs)])
        self.outputs = {p: new[x] for p, x in self.outputs.items()}
        self.wanted = {p: new[x] for p, x in self.wanted.items()}
        self._order = []

    def _ends(self) -> Ends:
        ends: dict[Node, Ints] = {}
        for nodes, valid in ((self.inputs, self.valid_inputs), (self.outputs, self.valid_outputs)):
            for port, counts in valid.items():
                ends[nodes[port]] = np.union1d(ends.get(nodes[port], counts), counts)
        return ends

    def widened(self, lanes: int) -> "AtomPair":
        """Return the pair with `lanes` elements in place of each atom; do not cut it any more."""
        return AtomPair(
            widened(self.outputs, lanes),
            widened(self.wanted, lanes),
            {port: counts * lanes for port, counts in self.valid_inputs.items()},
            {port: counts * lanes for port, counts in self.valid_outputs.items()},
        )

    def element(self, port: Port, atom: int) -> int:
        """The first element of an atom of an output."""
        return int(_starts([outputs[port] for _, outputs in self._levels], np.array([atom]))[0])

    def input_widths(self, port: Port) -> Ints:
        """Elements of each atom of an input."""
        return self._widths([inputs[port] for inputs, _ in self._levels], self.inputs[port].size)

    def output_widths(self, port: Port) -> Ints:
        """Elements of each atom of an output."""
        return self._widths([outputs[port] for _, outputs in self._levels], self.outputs[port].size)

    def _widths(self, levels: Sequence[Cuts], atoms: int) -> Ints:
        return np.diff(_starts(levels, np.arange(atoms + 1)))


def _starts(levels: Sequence[Cuts], atoms: Ints) -> Ints:
    for cuts in reversed(levels):
        atoms = cuts.start(atoms)
    return atoms


def _valid(nodes: Mapping[Port, Node], specs: Mapping[Port, PortSpec]) -> Valid:
    counts = {port: specs[port].valid for port in nodes}
    return {port: np.array(n) for port, n in counts.items() if n is not None}
