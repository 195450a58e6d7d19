"""Attention of some queries to some keys as one operation: its meaning in NumPy, the sizes of its values, its work.

Values are (heads, positions, width). Query i sees the keys 0 to i + ahead: no key of a later position. `ahead` is
how far the first query stands behind the first key. Scores are divided by the root of the width. Each query has an
`lse`, too: the logarithm of the sum of exp(score) over the keys that it saw. With it, results for parts of the keys
combine to that for all (Milakov and Gimelshein 2018, Online normalizer calculation for softmax), and a backward
finds the weights again (Dao et al. 2022, FlashAttention).

Results lie end to end: [out, lse] and [d_q, d_k, d_v]. A query that sees nothing has out 0 and the lse `unseen`:
it weighs nothing beside another. All of it is in 32 bits at least: 16 do not hold an lse, nor sums of many parts.
emit/runtime/attention.py does the same in torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

AT_ONCE = 2**21  # scores, 16 MiB: as many heads as fit are evaluated together


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One operation.

    Attributes:
        operands, results: What each is, by letter: `q` a row for each query, `k` a row for each key, `l` an lse.
        meaning: Function of the operands of some heads of a rank, (heads, positions, width), an lse (heads,
            positions), then `ahead` and the lse `unseen`. It gives the results, likewise.
        products: Matrix products of queries, keys and width in it.
        held: What torch holds together at its fullest moments, the results among it: `s` the scores, `m` a mask of
            one head, of a byte an element, and values as above.
    """

    operands: str
    results: str
    meaning: Callable[..., tuple[Array, ...]]
    products: int
    held: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of an operation: heads, queries and keys of each, elements of a row."""

    heads: int
    queries: int
    keys: int
    width: int

    def shape(self, letter: str) -> tuple[int, ...]:
        """The shape of an operand or a result."""
        rows = self.keys if letter == "k" else self.queries
        return (self.heads, rows) if letter == "l" else (self.heads, rows, self.width)

    def bytes(self, letter: str, element_bytes: int) -> int:
        """Bytes of an operand, a result, the scores or a mask."""
        if letter in "sm":
            pairs = self.queries * self.keys
            return pairs if letter == "m" else self.heads * pairs * element_bytes
        return prod(self.shape(letter)) * element_bytes


def unseen(dtype: Any) -> float:
    """The lse of a query that sees no key: half of the lowest number, so that differences stay finite."""
    return float(np.finfo(dtype).min) / 2


def _scores(q: Array, k: Array) -> Array:
    scores: Array = q @ k.swapaxes(1, 2)
    scores *= scores.dtype.type(1 / sqrt(q.shape[2]))
    return scores


def _hidden(queries: int, keys: int, ahead: int) -> Array:
    hidden: Array = np.arange(keys) > np.arange(queries)[:, None] + ahead
    return hidden


def _attend(q: Array, k: Array, v: Array, ahead: int, lowest: float) -> tuple[Array, ...]:
    scores = _scores(q, k)
    scores[:, _hidden(q.shape[1], k.shape[1], ahead)] = -np.inf
    top = np.maximum(scores.max(2, keepdims=True), scores.dtype.type(lowest))
    weights = np.exp(scores - top)
    total = np.maximum(weights.sum(2, keepdims=True), 1)  # the highest score weighs 1; 0 if there is none
    return weights @ v / total, (top + np.log(total))[..., 0]


def _combine(
    out: Array, lse: Array, other: Array, other_lse: Array, ahead: int, lowest: float
) -> tuple[Array, ...]:
    top = np.maximum(lse, other_lse)
    mine, others = np.exp(lse - top), np.exp(other_lse - top)
    total = mine + others
    joined = (out * mine[..., None] + other * others[..., None]) / total[..., None]
    return joined, top + np.log(total)


def _backward(
    q: Array, k: Array, v: Array, out: Array, lse: Array, d_out: Array, ahead: int, lowest: float
) -> tuple[Array, ...]:
    weights = np.exp(_scores(q, k) - lse[..., None])
    weights[:, _hidden(q.shape[1], k.shape[1], ahead)] = 0
    d_scores = d_out @ v.swapaxes(1, 2) - (out * d_out).sum(2, keepdims=True)
    d_scores *= weights
    d_scores *= d_scores.dtype.type(1 / sqrt(q.shape[2]))
    return d_scores @ k, d_scores.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ d_out


OPERATIONS = {
    "attend": Attention(
        operands="qkk", results="ql", meaning=_attend, products=2, held=("sm", "sllq", "qllql")
    ),
    "combine": Attention(operands="qlql", results="ql", meaning=_combine, products=0, held=("llllqql",)),
    "attend_backward": Attention(
        operands="qkkqlq",
        results="qkk",
        meaning=_backward,
        products=5,
        held=("sm", "ssqkl", "sqkk", "qkkqkk"),
    ),
}


def sizes_of(name: str, heads: int, width: int, operands: Sequence[int]) -> Sizes:
    """The sizes of an operation of operands of so many elements.

    Raises:
        ValueError: They do not fit each other.
    """
    letters = OPERATIONS[name].operands
    if len(operands) != len(letters):
        raise ValueError(f"{name} takes {len(letters)} operands (got {len(operands)})")
    row = heads * width
    found = Sizes(
        heads=heads,
        queries=operands[0] // row,
        keys=operands[1] // row if "k" in letters else 0,
        width=width,
    )
    if min(operands) < 1 or any(prod(found.shape(x)) != n for x, n in zip(letters, operands, strict=True)):
        raise ValueError(
            f"{name}: {' and '.join(map(str, operands))} elements are no {heads} heads of rows of {width}, with"
            " as many rows of values as of keys and one lse for each row of queries"
        )
    return found


def result_size(name: str, of: Sizes) -> int:
    """Elements of the results, end to end."""
    return sum(prod(of.shape(x)) for x in OPERATIONS[name].results)


def evaluate(name: str, of: Sizes, operands: Sequence[Array], ahead: NDArray[np.int64], dtype: Any) -> Array:
    """[K, elements] of operands [K or 1, elements].

    Args:
        ahead: int64[K], how far the first query stands behind the first key.
    """
    operation, lowest = OPERATIONS[name], unseen(dtype)
    result = np.empty((len(ahead), result_size(name, of)), dtype)
    step = max(1, AT_ONCE // max(1, of.queries * of.keys))
    for i, first in enumerate(ahead.tolist()):
        shaped = [
            x[i % len(x)].reshape(of.shape(letter))
            for x, letter in zip(operands, operation.operands, strict=True)
        ]
        made = [
            operation.meaning(*(x[h : h + step] for x in shaped), first, lowest)
            for h in range(0, of.heads, step)
        ]
        at = 0
        for parts in zip(*made, strict=True):
            for part in parts:
                result[i, at : at + part.size] = part.ravel()
                at += part.size
    return result
