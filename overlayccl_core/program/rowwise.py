"""Operations on rows, for nonlinear Problems: one entry of OPERATIONS is one operation.

A value is rows of `width` elements. Operands and results are wide (whole rows) or narrow (one element for each
row, counting for all its elements). If all are equally large, the width is 1. An operation's meaning, its printed
form and its cost stand here and nowhere else; those of attention, which are of whole heads, in attention.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program import attention
from overlayccl_core.program.kinds import Reduction

Array = NDArray[Any]


class Form(StrEnum):
    """How an operation turns operands into its result."""

    EACH = "each"  # elements by elements; as large as the largest operand
    REDUCE = "reduce"  # one element of each row of the first operand
    PICK = "pick"  # from each row of the first operand the element named by an id, 0 if it names none
    ONE_HOT = "one_hot"  # for each id a row with 1 at its place, 0 elsewhere
    HEADS = "heads"  # an operation of attention.py


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One entry of the table.

    Attributes:
        meaning: Function of arrays [K, rows, width or 1] to one of these. In place of ids, PICK and ONE_HOT take
            their places in the rows, int64 [K, rows, 1], and the width. Of HEADS: attention.evaluate.
        torch: An expression with the operands in braces; empty: the function of torch (or of
            emit/runtime/layout.py) of the operation's name.
        reduction: Combines the results of a row's parts into that of the row; None: only whole rows will do.
    """

    form: Form
    operands: int
    meaning: Callable[..., Array]
    text: str  # the same for people
    torch: str = ""
    reduction: Reduction | None = None
    rounds: bool = True  # the result may be rounded
    counted_as: str = "scale"  # the cost model's local operation with as many bytes, and as dear an element
    commutes: bool = False  # swapped operands give the same bits (not for a maximum: -0 and +0 are equal)
    linear: bool = False  # in its operands, taken together


def _picked(wide: Array, place: Array, width: int) -> Array:
    inside = (place >= 0) & (place < width)
    found = np.take_along_axis(
        np.broadcast_to(wide, (len(place), *wide.shape[1:])), np.where(inside, place, 0), -1
    )
    return np.where(inside, found, found.dtype.type(0))


def _one_hot(place: Array, width: int) -> Array:
    there: Array = place == np.arange(width)
    return there


def _each(operands: int, meaning: Callable[..., Array], text: str, **more: bool | str) -> Operation:
    return Operation(form=Form.EACH, operands=operands, meaning=meaning, text=text, **more)  # type: ignore[arg-type]


def summed_in(dtype: Any) -> Any:
    """Dtype of a rank's sum before it is rounded once: torch adds 16 bits in float32."""
    return np.float32 if dtype.itemsize == 2 else dtype


def _row_sum(x: Array) -> Array:
    total: Array = np.add.reduce(x, axis=-1, dtype=summed_in(x.dtype), keepdims=True)
    return total.astype(x.dtype, copy=False)


def _reduce(
    meaning: Callable[[Array], Array], torch: str, reduction: Reduction | None, *, rounds: bool
) -> Operation:
    return Operation(
        form=Form.REDUCE,
        operands=1,
        meaning=meaning,
        text="",
        torch=torch,
        reduction=reduction,
        rounds=rounds,
        counted_as="sum",
        linear=reduction is Reduction.SUM,
    )


OPERATIONS = {
    "add": _each(2, np.add, "{0} + {1}", commutes=True, linear=True),
    "sub": _each(2, np.subtract, "{0} - {1}", linear=True),
    "mul": _each(2, np.multiply, "{0} * {1}", commutes=True),
    "div": _each(2, np.divide, "{0} / {1}"),
    "maximum": _each(2, np.maximum, "maximum({0}, {1})", rounds=False),
    "exp": _each(1, np.exp, "exp({0})", counted_as="exp"),
    "log": _each(1, np.log, "log({0})", counted_as="exp"),
    "row_sum": _reduce(_row_sum, "{0}.sum(1)", Reduction.SUM, rounds=True),
    "row_max": _reduce(lambda x: x.max(-1, keepdims=True), "{0}.amax(1)", Reduction.MAX, rounds=False),
    "pick": Operation(
        form=Form.PICK, operands=2, meaning=_picked, text="", rounds=False, counted_as="gather"
    ),
    "one_hot": Operation(
        form=Form.ONE_HOT, operands=1, meaning=_one_hot, text="", rounds=False, counted_as="copy"
    ),
    **{
        name: Operation(
            form=Form.HEADS,
            operands=len(one.operands),
            meaning=partial(attention.evaluate, name),
            text="",
            counted_as=name if one.products else "exp",
        )
        for name, one in attention.OPERATIONS.items()
    },
}
ELEMENTARY = frozenset(name for name, one in OPERATIONS.items() if one.form is not Form.HEADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAttr:
    """An operation, and the width of its rows.

    Attributes:
        first: Id of the first element of a row, or how far the first query stands behind the first key: one for all
            ranks or one for each; empty without ids and positions.
        heads: Of attention.
    """

    name: str
    width: int = 1
    first: tuple[int, ...] = ()
    heads: int = 1

    @property
    def key(self) -> bytes:
        """Bytes for the node's digest."""
        heads = (self.heads,) if self.operation.form is Form.HEADS else ()
        return repr((self.name, self.width, self.first, *heads)).encode()

    @property
    def operation(self) -> Operation:
        """The entry of the table."""
        return OPERATIONS[self.name]

    def size(self, sizes: Sequence[int]) -> int:
        """Return the elements of the result for operands of these sizes.

        Raises:
            ValueError: The sizes break the operation's rule.
        """
        form, width = self.operation.form, self.width
        if form is Form.HEADS:
            return attention.result_size(self.name, self.heads_of(sizes))
        if len(sizes) != self.operation.operands:
            raise ValueError(f"{self.name} takes {self.operation.operands} operands (got {len(sizes)})")
        if form is Form.ONE_HOT:
            return sizes[0] * width
        if form is Form.EACH:
            largest = max(sizes)
            if largest % width or any(n not in (largest, largest // width) for n in sizes):
                raise ValueError(
                    f"{self.name}: operands must be equally large or have one element for each row of {width}"
                    f" (got {' and '.join(map(str, sizes))} elements)"
                )
            return largest
        rows, rest = divmod(sizes[0], width)
        if rest or any(n != rows for n in sizes[1:]):
            raise ValueError(f"{self.name}: {sizes[0]} elements must be rows of {width}, one for each id")
        return rows

    def evaluate(self, operands: Sequence[Array], first: Array, dtype: Any) -> Array:
        """Evaluate operands [K or 1, size] to [K, size]; a NaN stays one, without a warning: comparisons find it.

        Args:
            first: int64 [K], the id of a row's first element, or how far the queries stand behind the keys.
        """
        if self.operation.form is Form.HEADS:
            of = self.heads_of([x.shape[1] for x in operands])
            with np.errstate(all="ignore"):
                return self.operation.meaning(of, operands, first, dtype)
        rows = self.rows(operands)
        with np.errstate(all="ignore"):
            if self.operation.form in (Form.PICK, Form.ONE_HOT):
                place = rows.pop() - first[:, None, None]
                result = self.operation.meaning(*rows, place, self.width).astype(dtype, copy=False)
            else:
                result = self.operation.meaning(*rows)
        return result.reshape(len(result), -1)

    def heads_of(self, sizes: Sequence[int]) -> attention.Sizes:
        """The sizes of an operation of attention.

        Raises:
            ValueError: Operands of these sizes do not fit each other.
        """
        return attention.sizes_of(self.name, self.heads, self.width, sizes)

    def rows(self, operands: Sequence[Array]) -> list[Array]:
        """Operands [K, size] as [K, rows, width or 1]."""
        wide = self.wide([x.shape[1] for x in operands])
        return [x.reshape(len(x), -1, self.width if w else 1) for x, w in zip(operands, wide, strict=True)]

    def wide(self, sizes: Sequence[int]) -> list[bool]:
        """For each operand: True if it is whole rows."""
        if self.operation.form is Form.EACH:
            return [n == max(sizes) for n in sizes]
        return [i == 0 and self.operation.form is not Form.ONE_HOT for i in range(len(sizes))]
