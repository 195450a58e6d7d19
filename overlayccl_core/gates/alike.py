"""Parts of the data that a nonlinear Program treats alike: a result for one holds for the others.

A nonlinear Problem names its ports with a row for each of many equal parts (tokens), and its ports with an element
in each row for each thing named by ids (words). Here every value gets a number for its operations and operands. If
the Program is given parts and things in another order, and its outputs have the same numbers in that order, it
treats them alike. Sums are taken modulo a drawn prime. A subtracted or scaled value counts as another term: unlike
floats, no sum of terms hides one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import Array, is_max
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.meaning import AT_ONCE, RankData, evaluate
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import Alike, Nonlinear
from overlayccl_core.program.program import Program

Ints = NDArray[np.int64]

_ODD, _OTHER = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xD6E8FEB86659FD93),
)  # as in splitmix64: odd, bits mixed
# Kinds in the last 8 bits of a number; their mask.
_SUM, _MAXIMUM, _KIND = np.uint64(1), np.uint64(2), np.uint64(255)
_BITS = 47  # of a term: a sum of 2^17 terms stays below 2^64
_TERM = np.uint64(2**_BITS - 1)


def alike(program: Program, brought: Nonlinear, random: np.random.Generator) -> Alike:
    """Classify parts by their computation; tell whether order in a class, and of a rank's things, is irrelevant."""
    numbers = _Numbers(program, brought, _prime(random))
    parts = random.integers(1 << 63, size=max(brought.parts.values())).astype(np.uint64)
    names = random.integers(1 << 63, size=numbers.things).astype(np.uint64)
    as_named = np.arange(numbers.things)
    of_names = _turned(as_named * program.problem.ranks // numbers.things, random)
    given = numbers.of(parts, names)

    def turn(classes: Ints, of_names: Ints) -> bool:
        """Tell whether reordering parts of a class and things of a rank only reorders the outputs."""
        of_parts = _turned(classes, random)
        return all(
            np.array_equal(
                numbers.in_order(given[port].on(rank), port, rank, of_parts, of_names), value.on(rank)
            )
            for port, value in numbers.of(parts[of_parts], names[of_names]).items()
            for rank in range(program.problem.ranks)
        )

    one_class = np.zeros(len(parts), np.int64)
    if turn(one_class, of_names):
        return Alike(parts=one_class, evenly=True)
    blind = numbers.of(parts * np.uint64(0), names)
    whole = np.concatenate(
        [
            value.data.reshape(len(value.data), len(parts), -1).swapaxes(0, 1).reshape(len(parts), -1)
            for port, value in blind.items()
            if port in brought.parts
        ],
        1,
    )
    columns = np.arange(whole.shape[1], dtype=np.uint64)
    classes = np.unique(_mixed(whole + columns).sum(1), return_inverse=True)[1]
    if not turn(classes, as_named):  # a value joins several parts, not all in one way
        classes = np.arange(len(parts))
    return Alike(parts=classes, evenly=turn(classes, of_names))


def _prime(random: np.random.Generator) -> int:
    """Draw a (probable) prime of `_BITS` bits, unknown beforehand."""
    while True:
        drawn = int(random.integers(2 ** (_BITS - 1), 2**_BITS))
        if all(pow(base, drawn - 1, drawn) == 1 for base in (2, 3, 5, 7)):
            return drawn


def _turned(classes: Ints, random: np.random.Generator) -> Ints:
    """Permute each class by one random cycle: it maps no proper subset to itself."""
    order = random.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    follows = np.empty_like(order)
    for one in np.split(order, np.flatnonzero(np.diff(classes[order])) + 1):
        follows[one] = np.roll(one, 1)
    return follows


class _Numbers:
    """Numbers of a Program's outputs, for given numbers of parts and things."""

    def __init__(self, program: Program, brought: Nonlinear, prime: int) -> None:
        self.program = program
        self.brought = brought
        self.prime = np.uint64(prime)
        specs = {**program.problem.inputs, **program.problem.outputs}
        port = brought.named[0]
        self.things = specs[port].size // brought.parts[port] * program.problem.ranks

    def of(self, parts: Array, names: Array) -> Mapping[Port, RankData]:
        """Return port -> numbers, given uint64[parts] and uint64[things], the latter in rank order."""
        problem = self.program.problem
        inputs = {}
        for number, (port, spec) in enumerate(problem.inputs.items()):
            rows = parts if port in self.brought.parts else parts[:1] * np.uint64(0)
            columns = np.arange(spec.size // len(rows), dtype=np.uint64)[None]
            if port in self.brought.named:
                columns = names.reshape(problem.ranks, -1)
            made = _mixed(_mixed(rows + np.uint64(number))[:, None] + columns[:, None, :])
            inputs[port] = made.reshape(len(made), -1)
        return evaluate(self.program.outputs, inputs, _Ways(names, self.prime), problem.ranks)[0]

    def in_order(self, x: Array, port: Port, rank: int, of_parts: Ints, of_names: Ints) -> Array:
        """Return a rank's [size] numbers with parts and things reordered."""
        if port not in self.brought.parts:
            return x
        rows = x.reshape(len(of_parts), -1)[of_parts]
        if port in self.brought.named:
            first = rank * rows.shape[1]
            rows = rows[:, of_names[first : first + rows.shape[1]] - first]
        ordered: Array = rows.ravel()
        return ordered


@dataclass(frozen=True, slots=True)
class _Ways:
    """Arithmetic of these numbers: order and grouping in sums, maxima and look-ups do not count."""

    names: Array
    prime: np.uint64

    def dtype(self, node_dtype: DType) -> Any:
        return np.uint64

    def scale(self, data: Array, node: Node) -> Array:
        """Mix in the ratio."""
        return _mixed(data + _drawn(node.ratio))

    def cast(self, data: Array, node: Node) -> Array:
        """Mix in the dtype: a cast may change the value."""
        return _mixed(data + _drawn(node.dtype.value))

    def add_blocks(self, data: Array, node: Node) -> Array:
        """Number the sum of the blocks."""
        return self._joined(_SUM, data.reshape(len(data), node.count, node.size).swapaxes(1, 2))

    def combine(self, data: Array, members: Ints, node: Node) -> Array:
        """Number a sum or a maximum over members."""
        kind = _MAXIMUM if is_max(node) else _SUM
        terms = _terms(kind, data)
        total = np.zeros((len(members), data.shape[1]), np.uint64)
        for column in members.T:
            total += terms[column]
        return self._whole(kind, total)

    def rowwise(self, operands: list[Array], first: Ints, node: Node) -> Array:
        """Number sums and maxima as for collectives, and look-ups by the names of their things."""
        x, *more = node.row.rows(operands)
        match node.row.name:
            case "add":
                made = self._whole(_SUM, _terms(_SUM, x) + _terms(_SUM, more[0]))
            case "sub":
                made = self._whole(_SUM, _terms(_SUM, x) + (_mixed(more[0] + _drawn("sub")) & _TERM))
            case "mul":
                made = _mixed(_mixed(x) + _mixed(more[0]) + _drawn("mul"))
            case "maximum":
                made = self._whole(_MAXIMUM, _terms(_MAXIMUM, x) + _terms(_MAXIMUM, more[0]))
            case "row_sum":
                made = self._joined(_SUM, x)
            case "row_max":
                made = self._joined(_MAXIMUM, x)
            case "pick":
                found = _mixed(_mixed(x + more[0]) * self._named(first, node)) & _TERM
                made = self._whole(_SUM, found.sum(-1))
            case "one_hot":
                made = _mixed(x + self._named(first, node))
            case name:
                made = _mixed(x + _drawn(name))
                made = _mixed(made + more[0]) if more else made
        return np.broadcast_to(made.reshape(len(made), -1), (max(len(made), len(first)), node.size))

    def _joined(self, kind: np.uint64, x: Array) -> Array:
        """Number the sum or the maximum over the last axis."""
        return self._whole(kind, _terms(kind, x).sum(-1))

    def _whole(self, kind: np.uint64, total: Array) -> Array:
        """Return the number of a sum or a maximum, given the total of its terms."""
        whole: Array = (total % self.prime) << np.uint64(8) | kind
        return whole

    def _named(self, first: Ints, node: Node) -> Array:
        """Return the names of a row's elements, [K, 1, width]; an element without an id gets its own number."""
        ids = first[:, None, None] + np.arange(node.row.width)
        known = (ids >= 0) & (ids < len(self.names))
        named: Array = np.where(known, self.names[np.where(known, ids, 0)], ids.astype(np.uint64))
        return named | np.uint64(1)


def _terms(kind: np.uint64, x: Array) -> Array:
    """Return numbers as terms: a number of the same kind gives its total; 0 adds nothing to a sum."""
    terms = _mixed(x)
    adds_nothing = (x == 0) & (kind == _SUM)
    np.right_shift(x, np.uint64(8), out=terms, where=((x & _KIND) == kind) | adds_nothing)
    terms &= _TERM
    return terms


def _drawn(seed: object) -> Array:
    """Return a fixed random number for a seed."""
    return np.random.default_rng(list(str(seed).encode())).integers(1 << 63, dtype=np.uint64)  # type: ignore[return-value]


def _mixed(x: Array) -> Array:
    """Hash each number; sums of hashes identify their terms."""
    mixed: Array = np.add(x, _OTHER, order="C")
    flat = mixed.reshape(-1)
    for first in range(0, flat.size, AT_ONCE):
        some = flat[first : first + AT_ONCE]
        some *= _ODD
        some ^= some >> np.uint64(32)
        some *= _OTHER
        some ^= some >> np.uint64(29)
    return mixed
