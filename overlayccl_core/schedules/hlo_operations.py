"""The arithmetic of HLO that a linear Program has, and numbers that are known.

https://openxla.org/xla/operation_semantics says what the operations do.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import language
from overlayccl_core.program.recorder import Value
from overlayccl_core.schedules.hlo_movements import MOVEMENTS, Operation
from overlayccl_core.schedules.hlo_text import ArrayShape, Instruction, refuse
from overlayccl_core.schedules.hlo_values import (
    FLOATS,
    NUMBERS,
    Array,
    Computes,
    Known,
    as_value,
    check_known,
    ratio_of,
)

_NUMBER = re.compile(r"[^\s,{}()]+")


# ------------------------------------------------------------------------------------------ arithmetic
def _add(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    return language.add(*map(as_value, held))


def _subtract(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    return language.sub(*map(as_value, held))


def _negate(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    return language.scale(as_value(held[0]), -1)


def _multiply(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    value, factor = held if isinstance(held[1], Known) else reversed(held)
    ratio = ratio_of(_factor(factor))
    return language.scale(as_value(value), ratio.numerator, ratio.denominator)


def _divide(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    ratio = ratio_of(_factor(held[1]))
    return language.scale(as_value(held[0]), ratio.denominator, ratio.numerator)


def _factor(x: Array) -> Any:
    """The one number that a known value is."""
    number = x.of_all() if isinstance(x, Known) else None
    if number is None:
        raise Computes("multiplies or divides by something other than one number for all elements")
    return number


def _convert(x: Instruction, to: ArrayShape, held: Sequence[Array], shapes: Sequence[ArrayShape]) -> Array:
    if to.dtype not in FLOATS:
        raise Computes(f"converts to {to.dtype}")
    return language.cast(as_value(held[0]), FLOATS[to.dtype].value)


def sum_over(x: Instruction, held: Sequence[Array]) -> Value:
    """A reduce by addition: over some dimensions, from 0 on."""
    if not isinstance(held[1], Known) or held[1].rows.any():
        raise Computes("adds up from something other than 0 on")
    value = as_value(held[0])
    left = [n for d, n in enumerate(value.shape) if d not in x.integers("dimensions")]
    for d in sorted(x.integers("dimensions"), reverse=True):
        value = language.reduce_sum(value, d)
    return Value(value.node, tuple(left))


# --------------------------------------------------------------------------------------- known numbers
def constant(x: Instruction, to: ArrayShape) -> Known:
    """The numbers written in the text."""
    words = _NUMBER.findall(x.argument)
    if "..." in x.argument:
        raise Computes(
            "is a constant that the text leaves out (`{...}`): let the compiler print large constants"
        )
    if to.dtype not in NUMBERS or len(words) != prod(to.dims):
        raise Computes(f"is a constant of {len(words)} words for {to}")
    if to.dtype == "pred":
        row = np.array([word in ("true", "1") for word in words])
    else:
        try:
            row = np.array([float(w) if to.dtype in FLOATS else int(w) for w in words]).astype(
                NUMBERS[to.dtype]
            )
        except (ValueError, OverflowError):
            refuse(x, f"{x.argument[:40]!r} are no numbers of {to.dtype}")
    return Known(to.dims, row[None, :1] if (row == row[0]).all() else row[None])


def iota(x: Instruction, to: ArrayShape) -> Known:
    """0, 1, 2, ... along a dimension."""
    if to.dtype not in NUMBERS:
        raise Computes(f"counts in {to.dtype}")
    check_known(1, prod(to.dims))
    dim = int(x.attributes["iota_dimension"])
    along = np.arange(to.dims[dim]).reshape(-1, *(1 for _ in to.dims[dim + 1 :]))
    return Known(to.dims, np.broadcast_to(along, to.dims).reshape(1, -1).astype(NUMBERS[to.dtype]))


def _quotient(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Rounded towards 0, as HLO divides integers."""
    return (a - np.fmod(a, b)) // b if a.dtype.kind in "iu" else a / b  # type: ignore[no-any-return]


def _shift_right_logical(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> b.view(unsigned)).view(a.dtype)  # type: ignore[no-any-return]


_ON_NUMBERS: Mapping[str, Callable[..., Any]] = {
    **{"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _quotient},
    **{"remainder": np.fmod, "maximum": np.maximum, "minimum": np.minimum, "negate": np.negative},
    **{"abs": np.abs, "sign": np.sign, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"not": np.invert, "shift-left": np.left_shift, "shift-right-arithmetic": np.right_shift},
    "shift-right-logical": _shift_right_logical,
    "clamp": lambda low, x, high: np.minimum(np.maximum(low, x), high),
}
_COMPARED: Mapping[str, Callable[..., Any]] = {
    **{"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal},
    **{"GT": np.greater, "GE": np.greater_equal},
}


def of_numbers(x: Instruction, to: ArrayShape, held: Sequence[Known]) -> Known | None:
    """An operation on elements, all of them known; None for another operation."""
    rows = [one.rows for one in held]
    apply = _ON_NUMBERS.get(x.opcode) or (x.opcode == "compare" and _COMPARED.get(x.attributes["direction"]))
    if x.opcode == "convert" and to.dtype in NUMBERS:
        return Known(to.dims, rows[0].astype(NUMBERS[to.dtype]))
    if not apply:
        return None
    check_known(max(map(len, rows)), prod(to.dims))
    with np.errstate(all="ignore"):
        return Known(to.dims, np.asarray(apply(*rows)))


def reduced_numbers(x: Instruction, to: ArrayShape, held: Sequence[Known], by: str) -> Known:
    """A reduce of known numbers."""
    apply, [of, begin], dims = _ON_NUMBERS.get(by), held, x.integers("dimensions")
    if not isinstance(apply, np.ufunc):
        raise Computes(f"reduces by {by}")
    check_known(len(of.rows), prod(of.shape))
    rows = np.broadcast_to(of.rows, (len(of.rows), prod(of.shape))).reshape(-1, *of.shape)
    made = apply.reduce(rows, axis=tuple(1 + d for d in dims), dtype=of.rows.dtype)
    return Known(to.dims, np.asarray(apply(made.reshape(len(rows), -1), begin.rows)))


OPERATIONS: Mapping[str, Operation] = {
    **MOVEMENTS,
    **{"add": _add, "subtract": _subtract, "negate": _negate, "multiply": _multiply, "divide": _divide},
    "convert": _convert,
}
