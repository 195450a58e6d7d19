"""Queries, keys and values on which programs of attention are tried.

The scores of a query are of a kind: small, large, equal, or with one far above all others, at each rank in turn. So
in some draws a later key is far above, which the query must not see. From draw to draw a query goes on to the next
kind. In some heads the last value is far larger than the others, and the first cotangent: a trace of one shows
where nobody may see it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.arithmetics import NUMPY_DTYPES
from overlayccl_core.program.attention import OPERATIONS, unseen
from overlayccl_core.program.case import Case
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Alike, Draw

Q: Port = ("q",)
K: Port = ("k",)
V: Port = ("v",)
IN = (Q, K, V)
OUT: Port = ("out",)
LSE: Port = ("lse",)
Floats = NDArray[Any]
Random = np.random.Generator

# In words -> factor of unit normals, the queries of that kind.
KINDS: dict[str, float] = {
    "scores of size 1": 1,
    "equal scores": 0,
    "scores that are nearly equal": 1 / 64,
    "scores of size 30": 30,
    "scores of size 300": 300,
}
NAMES = tuple(KINDS)
AROUNDS = (0, 0, 1000, 0, -1000)  # numbers around which the scores of a draw lie
HEIGHTS = (30, 1e4)  # least and largest score far above
IN_16_BITS = 0.1  # of both, which float16 holds
SIZES = (1.0, 0.0, 2.0**20, 1.0, 2.0**-20)  # of the values of a head, and of its cotangents
SIZES_IN_16_BITS = (1.0, 0.0, 4.0, 1.0, 0.25)
UNEVEN = 3  # of these sizes: in 32 bits a single position is far larger
LARGER = 2.0**20  # so many times
LAST, FIRST = -1, 0  # the position: of the value that one query alone sees, of the cotangent of one key alone
LEEWAY = 8  # scores of this size double the allowed error
LEAST_DRAWS = 4
MULTIPLIED = 2**35  # at most, in all draws of a Program: half a minute
OF_A_DRAW = 8  # products of a draw: Program and reference, in two arithmetics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """Queries, keys and values of the whole sequence, [heads, positions, width] in the dtype of the Case.

    Attributes:
        kinds: In words, of a query of every rank, [heads][positions of a rank].
        values: Sizes of the values, [heads, positions].
        leeway: Allowed error of a query, [heads, positions]: large scores round in larger steps.
    """

    q: Floats
    k: Floats
    v: Floats
    kinds: list[list[str]]
    around: float
    values: Floats
    leeway: Floats

    def of_gradients(self, cotangents: Floats) -> dict[Port, Floats]:
        """Sizes of the gradients, [heads, positions, width], for cotangents of these sizes, [heads, positions].

        That of a key or value adds up what the queries allow, each by its weight: one inaccurate query must not
        excuse the keys to which it does not attend.
        """
        of_values = cotangents * self.leeway
        of_scores = of_values * self.values
        least = cotangents.min(1)[:, None, None]
        d_k, d_v = (np.empty(self.q.shape, np.float32) for _ in range(2))
        for head, (q, k) in enumerate(zip(self.q, self.k, strict=True)):
            weights = _weights(q.astype(np.float32), k.astype(np.float32)).T
            d_k[head] = weights @ (of_scores[head][:, None] * np.abs(q)).astype(np.float32)
            d_v[head] = (weights @ of_values[head].astype(np.float32))[:, None]
        d_k += least * self.values.min(1)[:, None, None]
        d_v += least
        return {("d_q",): self.rows(of_scores), ("d_k",): d_k, ("d_v",): d_v}

    def rows(self, sizes: Floats) -> Floats:
        """One for each element, of sizes [heads, positions]."""
        return np.broadcast_to(sizes[..., None], self.q.shape)

    def label(self, port: Port, element: int) -> str:
        """Say of which kind a query is; a key and a value are of a head."""
        positions = len(self.kinds[0])
        head, rest = divmod(element, positions * (1 if port == LSE else self.q.shape[2]))
        position = rest if port == LSE else rest // self.q.shape[2]
        what = f"of head {head}, position {position} of the rank's"
        if port not in (("d_k",), ("d_v",)):
            what += f", with {self.kinds[head][position]}"
        return what + (f", around {self.around:g}" if self.around else "")


def draws(case: Case, random: Random, hostile: bool, alike: Alike | None) -> Iterator[Draw]:
    """Draw until every query had each kind, and a score far above at each rank; fewer if there are very many."""
    for drawn in _drawn(case, random, hostile):
        sizes = {
            OUT: drawn.rows(drawn.values * drawn.leeway),
            **drawn.of_gradients(np.ones_like(drawn.leeway)),
        }
        yield Draw(inputs=_given(case, drawn), label=drawn.label, sizes=_all_spread(case, sizes))


def backward_draws(case: Case, random: Random, hostile: bool, alike: Alike | None) -> Iterator[Draw]:
    """Draw the same with what the forward makes of it, and cotangents of all sizes, by head."""
    dtype = NUMPY_DTYPES[case.dtype]
    for number, drawn in enumerate(_drawn(case, random, hostile)):
        q, k, v = (x.astype(np.float64) for x in (drawn.q, drawn.k, drawn.v))
        with np.errstate(all="ignore"):
            out, lse = OPERATIONS["attend"].meaning(q, k, v, 0, unseen(np.dtype(np.float64)))
        cotangents = _sizes(case, 2 * number + 1, FIRST) if hostile else np.ones_like(lse)
        d_out = cotangents[..., None] * random.standard_normal(q.shape)
        made = {OUT: out, LSE: lse, ("d_out",): d_out}
        yield Draw(
            inputs={
                **_given(case, drawn),
                **{p: _spread(case, x).astype(_wide(dtype) if p == LSE else dtype) for p, x in made.items()},
            },
            label=drawn.label,
            sizes=_all_spread(case, drawn.of_gradients(cotangents)),
        )


def _drawn(case: Case, random: Random, hostile: bool) -> Iterator[_Drawn]:
    heads, positions, width = case["heads"], case["sequence"] // case.ranks, case["head_dim"]
    turns = len(NAMES) + case.ranks
    work = heads * case["sequence"] ** 2 * width * OF_A_DRAW
    first = random.permutation(heads * positions).reshape(heads, positions)
    number = min(turns, max(LEAST_DRAWS, MULTIPLIED // work)) if hostile else 1
    for draw in range(number):
        turn = (first + draw) % turns if hostile else np.zeros((heads, positions), np.int64)
        around = AROUNDS[draw % len(AROUNDS)] if hostile and width > 1 else 0
        values = _sizes(case, draw, LAST) if hostile else np.ones((heads, case["sequence"]))
        yield _of_kinds(case, random, turn, around, values)


def _of_kinds(case: Case, random: Random, turn: NDArray[np.int64], around: float, values: Floats) -> _Drawn:
    """Draw queries of these kinds, [heads, positions of a rank], and keys; `around`: added to all scores."""
    heads, sequence, width, ranks = case["heads"], case["sequence"], case["head_dim"], case.ranks
    positions, short = sequence // ranks, case.dtype.bytes == 2
    around *= IN_16_BITS if short else 1
    root, kinds = sqrt(width), np.tile(turn, (1, ranks))
    q, k, v = (random.standard_normal((heads, sequence, width)) for _ in range(3))
    k *= root / np.linalg.norm(
        k, axis=2, keepdims=True
    )  # so that the score of a key for itself is the highest
    if around:
        k[..., 0] = 1
    factors = np.array([*KINDS.values(), *np.zeros(ranks)])
    q *= factors[kinds][..., None]
    head, query = np.nonzero(kinds >= len(NAMES))
    rank = kinds[head, query] - len(NAMES)
    there = k[head, rank * positions + random.integers(positions, size=len(rank))]
    there[:, 0] *= around == 0
    low, high = (x * (IN_16_BITS if short else 1) for x in HEIGHTS)
    height = low * (high / low) ** random.random(len(rank))
    q[head, query] = (height * root / (there**2).sum(1))[:, None] * there
    if around:
        q[..., 0] = around * root
    dtype = NUMPY_DTYPES[case.dtype]
    typed = q.astype(dtype), k.astype(dtype), (values[..., None] * v).astype(dtype)
    largest = np.linalg.norm(q, axis=2) * np.linalg.norm(k, axis=2).max(1, keepdims=True) / root
    names = [*NAMES, *(f"a score far above the others at rank {r}" for r in range(ranks))]
    return _Drawn(
        q=typed[0],
        k=typed[1],
        v=typed[2],
        kinds=[[names[n] for n in row] for row in turn],
        around=around,
        values=values,
        leeway=1 + largest / LEEWAY,
    )


def _weights(q: Floats, k: Floats) -> Floats:
    """Of each query, for the keys that it sees."""
    scores = q @ k.T / q.dtype.type(sqrt(q.shape[1]))
    scores[np.triu_indices(len(q), 1)] = -np.inf
    scores -= scores.max(1, keepdims=True)
    weights: Floats = np.exp(scores, out=scores)
    weights /= weights.sum(1, keepdims=True)
    return weights


def _sizes(case: Case, draw: int, larger: int) -> Floats:
    """Sizes of the values of all positions, [heads, positions]; `larger`: the position of a far larger one."""
    short = case.dtype.bytes == 2
    turn = (np.arange(case["heads"]) + draw) % len(SIZES)
    sizes: Floats = np.array(SIZES_IN_16_BITS if short else SIZES)[turn][:, None] * np.ones(case["sequence"])
    if not short:
        sizes[turn == UNEVEN, larger] *= LARGER
    return sizes


def _all_spread(case: Case, sizes: dict[Port, Floats]) -> dict[Port, Floats]:
    return {port: _spread(case, x) for port, x in sizes.items()}


def _given(case: Case, drawn: _Drawn) -> dict[Port, Floats]:
    return {port: _spread(case, x) for port, x in zip(IN, (drawn.q, drawn.k, drawn.v), strict=True)}


def _spread(case: Case, x: Floats) -> Floats:
    """[ranks, elements of a rank's piece] of [heads, positions, ...]."""
    pieces: Floats = x.reshape(case["heads"], case.ranks, -1).swapaxes(0, 1)
    return pieces.reshape(case.ranks, -1)


def _wide(dtype: Any) -> Any:
    return np.float32 if dtype.itemsize == 2 else dtype
