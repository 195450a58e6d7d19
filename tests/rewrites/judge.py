"""The truth over elements, by an evaluator of its own: every value on every rank, written out.

It shares no code with `program.meaning`, and what a rewritten Program shares with the one before is evaluated once.
"""

import zlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import MIXED, PRIME, Origins, is_max, is_power_of_two, residue
from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program
from overlayccl_core.program.rowwise import Form

Array = NDArray[np.int64]
IDS = 16  # ids are below


class Exact:
    """Two planes modulo the prime: values, and gains (values of ones under absolute coefficients).

    A maximum is that of the residues nearest to zero, so that a zero is no smallest element. An operation on
    elements is any function of them: a polynomial.
    """

    planes = 2

    def drawn(self, random: np.random.Generator, shape: tuple[int, int]) -> Array:
        """An input."""
        return np.stack([random.integers(1, PRIME, shape), np.ones(shape, np.int64)])

    def scale(self, data: Array, x: Node) -> Array:
        """data times the ratio of x."""
        both = np.array([residue(x.ratio), residue(Fraction(abs(x.ratio)))])
        scaled: Array = data * both[:, None, None] % PRIME
        return scaled

    def cast(self, data: Array, x: Node) -> Array:
        """Nothing is rounded."""
        return data

    def reduce(self, terms: Array, x: Node) -> Array:
        """[planes, rows, terms, size] -> [planes, rows, size]."""
        if is_max(x):
            signed = np.where(terms > PRIME // 2, terms - PRIME, terms)
            reduced: Array = signed.max(2) % PRIME
            return reduced
        return terms.sum(2) % PRIME  # type: ignore[no-any-return]

    def of_elements(self, terms: list[Array], x: Node) -> Array:
        """Operands [planes, ranks, rows, width or 1] -> [planes, ranks, rows, width]."""
        return _polynomial(terms, x)

    def of_rows(self, rows: Array, x: Node) -> Array:
        """[planes, ranks, rows, width] -> [planes, ranks, rows]."""
        if x.row.name == "row_max":
            signed = np.where(rows > PRIME // 2, rows - PRIME, rows)
            largest: Array = signed.max(3) % PRIME
            return largest
        return rows.sum(3) % PRIME  # type: ignore[no-any-return]


class _Times(NamedTuple):
    """What `Origins` asks of a scale."""

    ratio: Fraction
    dtype: DType
    kind: Kind = Kind.SCALE


class Rounding:
    """One plane of numbers as `Origins` has them: equal ones mean the same terms in the same rounding operations.

    Zeros among terms round nothing, a power of two on all terms may as well be on their sum, and a sum of k equal
    terms is k x here, as normal forms have it.
    """

    planes = 1

    def __init__(self) -> None:
        self._of = Origins()

    def drawn(self, random: np.random.Generator, shape: tuple[int, int]) -> Array:
        """An input."""
        return random.integers(1, PRIME, (1, *shape))

    def scale(self, data: Array, x: Node) -> Array:
        """data times the ratio of x."""
        return self._of.scale(data[0], x)[None]

    def cast(self, data: Array, x: Node) -> Array:
        """data in the dtype of x."""
        return self._of.cast(data[0], x)[None]

    def reduce(self, terms: Array, x: Node) -> Array:
        """[1, rows, terms, size] -> [1, rows, size]."""
        terms, live = terms[0], terms[0] != 0
        first = np.take_along_axis(terms, live.argmax(1)[:, None], 1)
        number = np.full_like(first[:, 0], zlib.crc32(repr((_how(x), x.dtype)).encode()) % PRIME)
        for term, there in zip(_ratios(terms, first).swapaxes(0, 1), live.swapaxes(0, 1), strict=True):
            number = np.where(there, (number * number % PRIME * 48271 + term) % PRIME, number)
        rounded = number * (first[:, 0] % MIXED) % PRIME | MIXED
        if not x.is_collective:
            alike = ((terms == first) | ~live).all(1)
            for k in np.unique(live.sum(1)[alike]).tolist():
                times = self._of.scale(first[:, 0], _Times(ratio=Fraction(k or 1), dtype=x.dtype))
                rounded = np.where(alike & (live.sum(1) == k), times, rounded)
        return np.where(live.sum(1) > 1, rounded, first[:, 0])[None]

    def of_elements(self, terms: list[Array], x: Node) -> Array:
        """As in `Exact`."""
        return _polynomial(terms, x)

    def of_rows(self, rows: Array, x: Node) -> Array:
        """Another number for another order of the terms."""
        return _polynomial([rows[..., i] for i in range(rows.shape[3])], x)


def _how(x: Node) -> tuple[str, ...]:
    """The operation that adds."""
    return (x.kind.value, x.attr.reduction.value) if x.is_collective else (x.kind.value,)


def _ratios(terms: Array, first: Array) -> Array:
    """terms[rows, terms, size] over first[rows, 1, size], modulo the prime; results are told from inputs."""
    inverse, square, exponent = np.ones_like(first), first % MIXED, PRIME - 2
    while exponent:
        if exponent & 1:
            inverse = inverse * square % PRIME
        square, exponent = square * square % PRIME, exponent >> 1
    return (terms % MIXED * inverse % PRIME * 2 + (terms >= MIXED)) % PRIME  # type: ignore[no-any-return]


def _polynomial(terms: list[Array], x: Node) -> Array:
    """A number for terms in their order, which is no linear function of them."""
    number = np.full_like(terms[0], zlib.crc32(x.row.name.encode()))
    for term in terms:
        number = (number * 48271 + term % PRIME) % PRIME
    return number * number % PRIME  # type: ignore[no-any-return]


Arithmetic = Exact | Rounding


def evaluated(program: Program, how: Arithmetic) -> dict[Node, Array]:
    """Every node of a Program -> [planes, ranks, size]; kept with the Program."""
    key = f"all elements, {type(how).__name__}"
    if key not in program.facts:
        program.facts[key] = values(program, how, {})
    return program.facts[key]  # type: ignore[no-any-return]


def values(program: Program, how: Arithmetic, known: dict[Node, Array]) -> dict[Node, Array]:
    """As `evaluated`, given some of them."""
    held = dict(known)
    for x in topological(program.outputs.values(), known):
        held[x] = _value(x, [held[y] for y in x.operands], how, program.problem.ranks)
    return held


_tables: dict[bytes, Array] = {}


def _written_out(layout: Map) -> Array:
    """The table of a map: the same layouts come again in what rules make of a Program."""
    if layout.digest not in _tables:
        _tables[layout.digest] = layout.table()
    return _tables[layout.digest]


def _value(x: Node, below: list[Array], how: Arithmetic, ranks: int) -> Array:
    match x.kind:
        case Kind.INPUT:
            random = np.random.default_rng(zlib.crc32(repr(x.port).encode()))
            if x.dtype is DType.INT64:
                names = random.integers(0, IDS, (1 if x.attr.equal else ranks, x.size))
                return np.broadcast_to(names, (how.planes, ranks, x.size))
            data = how.drawn(random, (1 if x.attr.equal else ranks, x.size))
            return np.broadcast_to(data, (how.planes, ranks, x.size))
        case Kind.VIEW:
            zero = np.zeros((how.planes, ranks, 1), np.int64)
            joined = np.concatenate([*below, zero], 2)
            return joined[:, np.arange(ranks)[:, None], _written_out(x.map)]  # ZERO is the last one
        case Kind.SCALE:
            return how.scale(below[0], x)
        case Kind.CAST:
            return how.cast(below[0], x)
        case Kind.SUM:
            return how.reduce(below[0].reshape(how.planes, ranks, x.count, x.size), x)
        case Kind.ROWWISE:
            return _of_rows(x, below, how)
        case Kind.COLLECTIVE_PERMUTE:
            source = np.array(x.sources)
            return np.where(source[:, None] >= 0, below[0][:, source], 0)
    values = np.empty((how.planes, ranks, x.size), np.int64)
    members = np.array(x.groups.members)
    values[:, members] = _grouped(x, below[0][:, members], how)
    return values


def _of_rows(x: Node, below: list[Array], how: Arithmetic) -> Array:
    """An operation on elements, on rows, or a lookup in rows."""
    planes, ranks = below[0].shape[:2]
    if x.row.operation.form is Form.EACH:
        rows = [y.reshape(planes, ranks, -1, x.row.width if y.shape[2] == x.size else 1) for y in below]
        shape = np.broadcast_shapes(*(y.shape for y in rows))
        return how.of_elements([np.broadcast_to(y, shape) for y in rows], x).reshape(planes, ranks, x.size)
    rows_of_first = below[0].reshape(planes, ranks, x.size, x.row.width)
    if x.row.operation.form is Form.REDUCE:
        return how.of_rows(rows_of_first, x)
    first = np.resize(np.array(x.row.first), ranks)[None, :, None]
    place = below[1] - first
    inside = (place >= 0) & (place < x.row.width)
    found = np.take_along_axis(rows_of_first, np.where(inside, place, 0)[..., None], 3)[..., 0]
    return np.where(inside, found, 0)


def _grouped(x: Node, gave: Array, how: Arithmetic) -> Array:
    """What members get, given what they gave: [planes, groups, members, elements]."""
    planes, groups, g, _ = gave.shape
    match x.kind:
        case Kind.ALL_GATHER:
            return gave.reshape(planes, groups, 1, x.size)  # the same for all of a group
        case Kind.ALL_REDUCE:
            return how.reduce(gave, x)[:, :, None]
    to_me = gave.reshape(planes, groups, g, g, -1).swapaxes(2, 3)  # [.., receiver, sender, block]
    if x.kind is Kind.ALL_TO_ALL:
        return to_me.reshape(planes, groups, g, x.size)
    return how.reduce(to_me.reshape(planes, groups * g, g, -1), x).reshape(planes, groups, g, x.size)


def differs(result: Program, program: Program, how: Callable[[], Arithmetic] = Exact) -> str:
    """The first output on which two Programs of one Problem differ where it is valid; empty if none."""
    before = evaluated(program, how())
    after = values(result, how(), before)
    for port, x in program.outputs.items():
        wrong = (after[result.outputs[port]] != before[x]).any(0)
        if (valid := program.problem.outputs[port].valid) is not None:
            wrong &= np.arange(x.size) < np.array(valid)[:, None]
        if wrong.any():
            rank, element = np.argwhere(wrong)[0].tolist()
            return f"output {port}, rank {rank}, element {element}"
    return ""


def loses(program: Program) -> bool:
    """True if something is summed, scaled or cast in 16 bits."""
    return any(_loses(x) for x in program.nodes)


def _loses(x: Any) -> bool:
    if x.dtype.bytes > 2:
        return False
    if x.kind is Kind.SCALE:
        return not is_power_of_two(x.ratio)
    if x.kind is Kind.ROWWISE:
        return x.row.operation.rounds  # type: ignore[no-any-return]
    return x.kind in (Kind.SUM, Kind.CAST, Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
