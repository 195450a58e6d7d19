"""Arithmetics for evaluating a Program on all ranks at once.

Modular   residues modulo 2^31 - 1: exact, one word an element
Gain      float64 with absolute coefficients: on ones, the largest size of every value; NaN for 0 times data
Real      the Program's own dtypes, every sum of a collective rounded after each term
Double    float64 for every dtype: the truth to compare Real with
Origins   a number for the terms and operations of each element: equal numbers, equal terms and operations
Bits      Origins for comparing ranks: equal numbers, equal bits

`data` is an array [K, size]: the K different values held by ranks.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.kinds import DType, Kind, Reduction
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.rowwise import Form, summed_in

Array = NDArray[Any]

PRIME = 2**31 - 1

NUMPY_DTYPES: dict[DType, Any] = {
    DType.FLOAT64: np.dtype(np.float64),
    DType.FLOAT32: np.dtype(np.float32),
    DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DType.FLOAT16: np.dtype(np.float16),
    DType.INT64: np.dtype(np.int64),
}


class Arithmetic(Protocol):
    """The operations of an arithmetic; moving elements is the same in all of them."""

    def dtype(self, node_dtype: DType) -> Any:
        """NumPy dtype of a value."""

    def scale(self, data: Array, node: Node) -> Array:
        """data times node.ratio."""

    def cast(self, data: Array, node: Node) -> Array:
        """data in node.dtype."""

    def add_blocks(self, data: Array, node: Node) -> Array:
        """[K, count * size] -> [K, size], the blocks added."""

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        """One value for each row of members[C, g]: data[members[c]] reduced."""

    def rowwise(self, operands: list[Array], first: NDArray[np.int64], node: Node) -> Array:
        """[K, size] of an operation of rowwise.py; operands: [K or 1, size]; first: int64 [K]."""


class _Exact:
    """Sums that may multiply equal terms instead of adding them."""

    word: Any = np.int64

    def dtype(self, node_dtype: DType) -> Any:
        return np.dtype(self.word)

    def cast(self, data: Array, node: Node) -> Array:
        return data

    def reduced(self, data: Array) -> Array:
        return data

    def rowwise(self, operands: list[Array], first: NDArray[np.int64], node: Node) -> Array:
        raise ValueError(f"{node} is not linear: it has a meaning in floating point only")

    def add_blocks(self, data: Array, node: Node) -> Array:
        return self.reduced(data.reshape(len(data), node.count, node.size).sum(1))

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        if is_max(node):
            return np.stack([data[np.unique(m)].max(0) for m in members])
        return self.reduced(np.stack([_weighted_sum(data, m) for m in members]))


class Modular(_Exact):
    """int64 residues. Sums of N residues stay below 2^63 for N < 2^32; products are reduced at once."""

    def scale(self, data: Array, node: Node) -> Array:
        return data * residue(node.ratio) % PRIME

    def reduced(self, data: Array) -> Array:
        return data % PRIME


class Gain(_Exact):
    """The absolute value of every coefficient; `extremes`: smallest and largest nonzero value, by dtype.

    0 times data is NaN, as for infinite data. 0 times a zero made by a layout is 0.
    """

    word = np.float64

    def __init__(self) -> None:
        self.extremes: dict[DType, tuple[float, float]] = {}

    def scale(self, data: Array, node: Node) -> Array:
        if node.ratio == 0:
            return np.where(data == 0, 0.0, np.nan)
        return self._seen(data * magnitude(node.ratio), node)

    def cast(self, data: Array, node: Node) -> Array:
        return self._seen(data, node)

    def add_blocks(self, data: Array, node: Node) -> Array:
        return self._seen(super().add_blocks(data, node), node)

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        return self._seen(super().combine(data, members, node), node)

    def _seen(self, data: Array, node: Node) -> Array:
        live = data[data > 0]
        if live.size:
            low, high = self.extremes.get(node.dtype, (np.inf, 0.0))
            self.extremes[node.dtype] = min(low, float(live.min())), max(high, float(live.max()))
        return data


class Real:
    """The dtypes of the Program.

    Collectives sum hop by hop in the dtype of the sum, in member order; a rank's own sum in 16 bits is rounded
    once.
    """

    def dtype(self, node_dtype: DType) -> Any:
        return NUMPY_DTYPES[node_dtype]

    def scale(self, data: Array, node: Node) -> Array:
        factor = node.ratio.numerator / node.ratio.denominator
        scaled: Array = data * np.asarray(factor).astype(data.dtype)
        return scaled

    def cast(self, data: Array, node: Node) -> Array:
        return data.astype(self.dtype(node.dtype))

    def add_blocks(self, data: Array, node: Node) -> Array:
        blocks = data.reshape(len(data), node.count, node.size)
        wide = summed_in(data.dtype)
        terms = (blocks[:, j].astype(wide, copy=False) for j in range(node.count))
        return _hop_by_hop(terms, maximum=False).astype(data.dtype, copy=False)

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        return _hop_by_hop((data[column] for column in members.T), maximum=is_max(node))

    def rowwise(self, operands: list[Array], first: NDArray[np.int64], node: Node) -> Array:
        return node.row.evaluate(operands, first, self.dtype(node.dtype))


class Double(Real):
    """float64 throughout."""

    def dtype(self, node_dtype: DType) -> Any:
        return NUMPY_DTYPES[DType.FLOAT64]


MIXED = 1 << 40  # set on the number of a rounded result, not of an input element
PLUS = 1 << 41  # set on a number after zeros were added: -0 became +0
MINUS_ZERO = 1 << 42  # the number of a zero times something negative


class Origins:
    """Numbers below the prime: an input element times a power of two. With MIXED: an operation's result.

    0 is an exact zero, so an operation on one element and zeros gives this element, with PLUS: +0 comes of -0.
    Equal numbers mean the same terms in the same order in the same operations and dtypes, up to chance 2^-31 for
    each element.
    """

    def dtype(self, node_dtype: DType) -> Any:
        return np.dtype(np.int64)

    def scale(self, data: Array, node: Node) -> Array:
        if is_power_of_two(node.ratio):
            low = data % MIXED
            return np.where(data == 0, 0, low * residue(node.ratio) % PRIME | (data - low))
        return _mixed(data, [data], (node.kind, str(node.ratio), node.dtype))

    def cast(self, data: Array, node: Node) -> Array:
        if node.dtype.bytes > node.operands[0].dtype.bytes:
            return data
        return _mixed(data, [data], (node.kind, node.dtype))

    def add_blocks(self, data: Array, node: Node) -> Array:
        blocks = data.reshape(len(data), node.count, node.size)
        terms = [blocks[:, j] for j in range(node.count)]
        return self.rounded(terms, (1,) * len(terms), node.dtype, (node.kind,))

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        terms, times = _terms(data, members)
        return self.rounded(terms, times, node.dtype, (node.kind, node.attr.reduction))

    def rowwise(self, operands: list[Array], first: NDArray[np.int64], node: Node) -> Array:
        """Number each element of the result by all its terms, in order. No number is a zero."""
        form = node.row.operation.form
        if form is Form.HEADS:  # of everything
            terms = [*(_row(x) for x in operands), first[:, None], np.arange(node.size)]
            shape = np.broadcast_shapes(*(x.shape for x in terms))
            return _mixed(np.ones(shape, np.int64), terms, (node.kind, node.row.key, node.dtype))
        rows = node.row.rows(operands)
        terms = [_row(x) for x in rows] if form in (Form.REDUCE, Form.PICK) else rows
        if node.row.operation.commutes:
            terms = [np.minimum(*terms), np.maximum(*terms)]
        in_row = np.arange(node.row.width if form is Form.ONE_HOT else 1)
        terms = [*terms, first[:, None, None] + in_row]
        shape = np.broadcast_shapes(*(x.shape for x in terms))
        mixed = _mixed(np.ones(shape, np.int64), terms, (node.kind, node.row.name, node.dtype))
        return mixed.reshape(len(mixed), -1)

    def rounded(
        self, terms: list[Array], times: tuple[int, ...], dtype: DType, operation: tuple[object, ...]
    ) -> Array:
        """Number an operation on terms taken `times` times; a lone one among zeros stays itself, with PLUS."""
        live, last = _live(terms, times)
        alone = np.where(live == 1, last | PLUS, 0)
        return np.where(live <= 1, alone, _mixed(last, terms, (*operation, dtype, times)))


class Bits(Origins):
    """Origins for comparing ranks: ranks with equal numbers hold equal bits.

    Two terms are added in either order. More terms are added in their given order; in a collective, the order may
    also depend on the element's place in the buffer, as in a ring. So two elements of a reduced buffer have
    different numbers; groups of one call with equal terms in equal order have equal numbers. The sign of a zero is
    a bit, too: x + 0 and x have different numbers, since -0 + 0 is +0.
    """

    def scale(self, data: Array, node: Node) -> Array:
        zeros = [0, MINUS_ZERO] if node.ratio > 0 else [MINUS_ZERO, 0]
        return np.select([data == 0, data == MINUS_ZERO], zeros, super().scale(data, node))

    def combine(self, data: Array, members: NDArray[np.int64], node: Node) -> Array:
        terms, times = _terms(data, members)
        places = np.broadcast_to(np.arange(data.shape[1]), terms[0].shape)
        return self.rounded(terms, times, node.dtype, (node.digest,), places)

    def rounded(
        self,
        terms: list[Array],
        times: tuple[int, ...],
        dtype: DType,
        operation: tuple[object, ...],
        *places: Array,
    ) -> Array:
        """Number an operation on terms; for two terms, the same in either order and by every operation."""
        live, last = _live(terms, times)
        plus = np.any([term == 0 for term in terms], axis=0)
        of_none = np.where(plus, 0, MINUS_ZERO)
        of_two = _mixed(last, _in_any_order(terms, times), (Kind.SUM, dtype))
        of_more = _mixed(last, [*terms, *places], (*operation, dtype, times))
        number = np.select([live == 0, live == 1, live == 2], [of_none, last, of_two], of_more)
        return np.where(plus & (live > 0), number | PLUS, number)


def _terms(data: Array, members: NDArray[np.int64]) -> tuple[list[Array], tuple[int, ...]]:
    """The terms of the groups members[C, g], member by member, and their counts: equal neighbours are one term."""
    ends = np.flatnonzero((members[:, 1:] != members[:, :-1]).any(0)) + 1
    starts = [0, *ends.tolist()]
    times = tuple(np.diff([*starts, members.shape[1]]).tolist())
    return [data[members[:, j]] for j in starts], times


def _live(terms: list[Array], times: tuple[int, ...]) -> tuple[Array, Array]:
    """For each element: the number of nonzero terms, and the last of them."""
    live = np.zeros(terms[0].shape, np.int64)
    last = np.zeros(terms[0].shape, np.int64)
    for term, n in zip(terms, times, strict=True):
        here = (term != 0) & (term != MINUS_ZERO)
        live += here * n
        last = np.where(here, term, last)
    return live, last


def _in_any_order(terms: list[Array], times: tuple[int, ...]) -> tuple[Array, Array]:
    """Two numbers that identify any two terms, whichever comes first; zeros count nothing."""
    total = np.zeros(terms[0].shape, np.int64)
    squares = np.zeros(terms[0].shape, np.int64)
    for term, n in zip(terms, times, strict=True):
        word = (term % PRIME * 48271 + term // MIXED) % PRIME
        total = (total + word * n) % PRIME
        squares = (squares + word * word % PRIME * n) % PRIME
    return total, squares


def _mixed(keep_zero: Array, terms: Iterable[Array], tag: tuple[object, ...]) -> Array:
    """A number for the operation `tag` on terms, in order; 0 where `keep_zero` is 0."""
    constant = int.from_bytes(repr(tuple(map(str, tag))).encode(), "big") % PRIME
    total = np.full(keep_zero.shape, constant, np.int64)
    for term in terms:
        total = (total * total % PRIME + term % PRIME * 48271 + constant + term // MIXED) % PRIME
    return np.where(keep_zero == 0, 0, total | MIXED)


def _row(x: Array) -> Array:
    """int64[.., 1]: a number below the prime for each row of numbers [.., width], in their order.

    Multiply-shift hashing (Dietzfelbinger et al. 1997): the upper bits of a product with random words.
    """
    words = np.random.default_rng(PRIME).integers(1 << 63, size=x.shape[-1], dtype=np.uint64)
    products = x.astype(np.uint64) @ (2 * words + 1)
    return (products >> np.uint64(33)).astype(np.int64)[..., None]


def is_max(node: Node) -> bool:
    """True for a reduction by maximum, which is not linear."""
    return node.kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER) and node.attr.reduction is Reduction.MAX


def not_linear(node: Node) -> str:
    """Describe a node's nonlinear operation, in a clause; empty if it is linear."""
    if is_max(node):
        return f"{node} takes a maximum"
    return f"{node} is {node.row.name} of data" if node.kind is Kind.ROWWISE else ""


def is_power_of_two(ratio: Fraction) -> bool:
    """True if multiplying by the ratio rounds nothing."""
    a, b = abs(ratio.numerator), ratio.denominator
    return a > 0 and a & (a - 1) == 0 and b & (b - 1) == 0


def residue(ratio: Fraction) -> int:
    """Return the ratio modulo the prime.

    Raises:
        ValueError: The prime divides its denominator.
    """
    return ratio.numerator * pow(ratio.denominator, -1, PRIME) % PRIME


def magnitude(ratio: Fraction) -> float:
    """|ratio|, infinite if too large for a float64."""
    try:
        return float(abs(ratio))
    except OverflowError:
        return float("inf")


def _weighted_sum(data: Array, members: NDArray[np.int64]) -> Array:
    """The sum of data[members]; equal members are multiplied, not copied."""
    which, times = np.unique(members, return_counts=True)
    if len(which) == len(data) and (times == 1).all():
        return data.sum(0)  # type: ignore[no-any-return]
    total = data[which[0]] * data.dtype.type(times[0])
    for w, t in zip(which[1:], times[1:], strict=True):
        total += data[w] * data.dtype.type(t)
    return total  # type: ignore[no-any-return]


def _hop_by_hop(terms: Iterable[Array], *, maximum: bool) -> Array:
    total: Array | None = None
    for term in terms:
        total = term if total is None else np.maximum(total, term) if maximum else total + term
    assert total is not None
    return total
