"""The operators of the strategy language: Python's on integers, kept below 2^63; + and * on sequences too."""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.recorder import Value

INTEGER_BITS = 63
MAX_INTEGER = 1 << INTEGER_BITS


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's symbol and function, and the operands refused before it runs.

    Attributes:
        refusal: (a, b) -> why not, or None. Without it `1 << 10**9` would be computed first.
    """

    symbol: str
    apply: Callable[[Any, Any], Any]
    refusal: Callable[[int, int], str | None] = lambda a, b: None


_TOO_LARGE = f"integers must stay below 2^{INTEGER_BITS}"


def _of_power(a: int, b: int) -> str | None:
    if b < 0:
        return "the exponent must not be negative"
    return _TOO_LARGE if b * (abs(a).bit_length() - 1) >= INTEGER_BITS else None


def _of_left_shift(a: int, b: int) -> str | None:
    if a and b > 0 and a.bit_length() + b > INTEGER_BITS:
        return _TOO_LARGE
    return _of_right_shift(a, b)


def _of_right_shift(a: int, b: int) -> str | None:
    return "a shift must not be negative" if b < 0 else None


BINARY: dict[type[ast.operator], Operator] = {
    ast.Add: Operator("+", operator.add),
    ast.Sub: Operator("-", operator.sub),
    ast.Mult: Operator("*", operator.mul),
    ast.FloorDiv: Operator("//", operator.floordiv),
    ast.Mod: Operator("%", operator.mod),
    ast.Pow: Operator("**", operator.pow, _of_power),
    ast.BitXor: Operator("^", operator.xor),
    ast.BitAnd: Operator("&", operator.and_),
    ast.BitOr: Operator("|", operator.or_),
    ast.LShift: Operator("<<", operator.lshift, _of_left_shift),
    ast.RShift: Operator(">>", operator.rshift, _of_right_shift),
}
UNARY: dict[type[ast.unaryop], Operator] = {  # of 0 and the operand
    ast.USub: Operator("-", operator.sub),
    ast.Invert: Operator("~", lambda zero, a: -1 - a),
}

_FOR_VALUES = {
    "+": "add(x, y) adds values",
    "-": "sub(x, y) subtracts values, scale(x, -1) changes the sign",
    "*": "scale(x, n) multiplies a value",
    "//": "scale(x, 1, n) divides a value",
}


def computed(o: Operator, a: int, b: int) -> int:
    """Apply an operator to two integers; Rejected if the result is undefined or too large."""
    if why := o.refusal(a, b):
        raise Rejected(f"{a} {o.symbol} {b}: {why}")
    result: int = o.apply(a, b)
    if not is_small(result):
        raise Rejected(f"{o.symbol} gives {result.bit_length()} bits: {_TOO_LARGE}")
    return result


def is_small(integer: int) -> bool:
    """True for integers within the language's range."""
    return -MAX_INTEGER < integer < MAX_INTEGER


def not_integers(symbol: str, *operands: Any) -> Rejected:
    """Return the error of an operator on operands other than integers, with the word for values instead."""
    kinds = f" {symbol} ".join(map(kind_of, operands)) if len(operands) > 1 else symbol + kind_of(*operands)
    if any(isinstance(x, Value) for x in operands):
        word = _FOR_VALUES.get(symbol, "a value's elements are floating point numbers")
        return Rejected(f"{kinds}: operators are for integers, {word}")
    return Rejected(f"{kinds}: operators are for integers (+ joins and * repeats lists, tuples and texts)")


_KINDS = {
    "Value": "value",
    "Parameters": "p",
    "IO": "io",
    "Ways": "a file of ways",
    "Reference": "a reference to chunks",
    "NoneType": "None",
    "Builtin": "function",
}


def kind_of(x: Any) -> str:
    """The author's word for the type of x."""
    name = type(x).__name__
    return _KINDS.get(name, name.lower())
