"""What an instruction of HLO gives, on all ranks: a value of the Program, numbers that are known, or neither.

A movement of known numbers is read off the same operation of the strategy language as a movement of values: it
is applied to stand-ins, and the map of its result says where every element comes from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.kinds import DType, Kind
from overlayccl_core.program.language import zeros
from overlayccl_core.program.maps import ZERO
from overlayccl_core.program.nodes import make_input
from overlayccl_core.program.recorder import Value

FLOATS = {
    "f64": DType.FLOAT64,
    "f32": DType.FLOAT32,
    "bf16": DType.BFLOAT16,
    "f16": DType.FLOAT16,
}
NUMBERS: dict[str, np.dtype[Any]] = {
    **{"f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    **{f"s{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{f"u{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    "pred": np.dtype(np.bool_),
}
MAX_KNOWN = 2**24  # numbers of one known value, on all ranks


class Computes(Exception):
    """An operation that no linear Program has; the message says what it does."""


@dataclass(frozen=True, slots=True)
class Known:
    """Numbers fixed by the text. rows: [1 or N, 1 or elements]; one column: all elements are equal."""

    shape: tuple[int, ...]
    rows: NDArray[Any]

    def of_each_rank(self) -> list[int]:
        """[1 or N]: a scalar integer or truth value. Computes if its elements differ."""
        if self.rows.shape[1] != 1 and (self.rows != self.rows[:, :1]).any():
            raise Computes("is decided by other numbers from element to element")
        return [int(n) for n in self.rows[:, 0]]

    def of_all(self) -> Any | None:
        """The number that all elements on all ranks are; None if they differ."""
        first = self.rows[0, 0]
        return first if (self.rows == first).all() else None


@dataclass(frozen=True, slots=True)
class Holed:
    """A value, and -inf where there is nothing of it. there: [elements]."""

    value: Value
    there: NDArray[np.bool_]


Array: TypeAlias = "Value | Known | Holed"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Computed by something that no Program does."""

    why: str


@dataclass(frozen=True, slots=True)
class Begun:
    """What a start gives until its end."""

    held: "Held"


Held: TypeAlias = "Array | Opaque | Begun | tuple[Held, ...]"


def as_value(x: Array) -> Value:
    """A value as it is, known zeros as zeros. Computes for other numbers: a linear Program has no constants."""
    if isinstance(x, Value):
        return x
    if isinstance(x, Holed):
        raise Computes("takes padding of -inf as data")
    name = next((d.value for text, d in FLOATS.items() if NUMBERS[text] == x.rows.dtype), None)
    if name is None:
        raise Computes("moves integers together with data, or sends them")
    if x.rows.any():
        raise Computes("takes constants other than 0 as data")
    return Value(zeros((prod(x.shape),), name).node, x.shape)


def moved(move: Callable[..., Value], held: Sequence[Array]) -> Value | Known:
    """A movement, written in the strategy language, of values or of known numbers."""
    known = [x for x in held if isinstance(x, Known)]
    if len(known) < len(held):
        return move(*map(as_value, held))
    stand_ins = [
        Value(make_input(("known", i), equal=False, size=prod(x.shape)), x.shape) for i, x in enumerate(known)
    ]
    made = move(*stand_ins)
    by_node = {one.node: x for one, x in zip(stand_ins, known, strict=True)}
    return Known(made.shape, _through(made, by_node, known[0].rows.dtype))


def _through(made: Value, by_node: dict[Any, Known], dtype: "np.dtype[Any]") -> NDArray[Any]:
    node = made.node
    if node in by_node:
        return by_node[node].rows
    assert node.kind is Kind.VIEW
    if not node.operands:
        return np.zeros((1, 1), dtype)
    operands = [by_node[x] for x in node.operands]
    first = operands[0].rows
    if len(operands) == 1 and first.shape[1] == 1 and (node.map.sources != ZERO).all():
        return first
    rows = max(node.map.rows, *(x.rows.shape[0] for x in operands))
    check_known(rows, node.size + sum(x.size for x in node.operands))
    laid = np.concatenate(
        [np.broadcast_to(x.rows, (rows, y.size)) for x, y in zip(operands, node.operands, strict=True)],
        axis=1,
    )
    table = np.broadcast_to(node.map.table(), (rows, node.size))
    taken = np.take_along_axis(laid, np.maximum(table, 0), axis=1)
    return np.where(table == ZERO, np.zeros((), dtype), taken)


def check_known(rows: int, size: int) -> int:
    """The size again; Computes for more numbers than are worked out here."""
    if rows * size > MAX_KNOWN:
        raise Computes(f"works out {rows * size} numbers (limit {MAX_KNOWN})")
    return size


def ratio_of(number: Any) -> Fraction:
    """The simplest ratio that rounds to a floating point number: 1/3 for 0.333333343 in f32, 1/8 for 0.125."""
    if not isfinite(number):
        raise Computes(f"multiplies by {number}")
    exact = Fraction(float(number))
    if exact.denominator == 1 or abs(exact.numerator) == 1:
        return exact
    size, of_type = abs(number), type(number)
    below, above = float(np.nextafter(size, of_type(0))), float(np.nextafter(size, of_type(np.inf)))
    if not isfinite(above):
        return exact
    found = _simplest((Fraction(below) + abs(exact)) / 2, (abs(exact) + Fraction(above)) / 2)
    return found if exact > 0 else -found


def _simplest(low: Fraction, high: Fraction) -> Fraction:
    """The ratio of the smallest denominator in [low, high], 0 < low < high: continued fractions."""
    whole = Fraction(low.numerator // low.denominator)
    if whole == low:
        return low
    return whole + 1 if whole + 1 <= high else whole + 1 / _simplest(1 / (high - whole), 1 / (low - whole))
