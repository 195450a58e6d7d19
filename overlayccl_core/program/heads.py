"""The words of attention: what a strategy calls, one operation of attention.py each.

Results are in 32 bits at least, whatever the operands are: a strategy casts what it sends or writes in fewer.
"""

from collections.abc import Sequence
from math import prod

from overlayccl_core.program import maps, nodes
from overlayccl_core.program.attention import OPERATIONS
from overlayccl_core.program.kinds import DType, Rejected
from overlayccl_core.program.recorder import Value
from overlayccl_core.program.rowwise import RowAttr
from overlayccl_core.program.static import PerRank, per_rank


def attend(q: Value, k: Value, v: Value, q_first: PerRank, k_first: PerRank) -> list[Value]:
    """[out, lse] of q (heads, a, n) and k, v (heads, b, n): query q_first + i sees keys up to its own position.

    q_first and k_first: positions of the first query and key, one int or one per rank. lse (heads, a).
    """
    return _made("attend", [q, k, v], _ahead(q, k, q_first, k_first))


def combine(out: Value, lse: Value, other: Value, other_lse: Value) -> list[Value]:
    """[out, lse] for the keys of both: out, other (heads, a, n), each with its lse (heads, a)."""
    return _made("combine", [out, lse, other, other_lse], ())


def attend_backward(
    q: Value,
    k: Value,
    v: Value,
    out: Value,
    lse: Value,
    d_out: Value,
    q_first: PerRank,
    k_first: PerRank,
) -> list[Value]:
    """[d_q, d_k, d_v] of these keys; out, lse of all keys, d_out the cotangent of out; positions as of attend."""
    return _made("attend_backward", [q, k, v, out, lse, d_out], _ahead(q, k, q_first, k_first))


def _ahead(q: Value, k: Value, q_first: PerRank, k_first: PerRank) -> tuple[int, ...]:
    """How far the first query stands behind the first key, one for all ranks or one for each.

    Between where no query sees a key and where each sees all: beyond, nothing changes.
    """
    if len(q.shape) != 3 or len(k.shape) != 3:
        raise Rejected(f"attention: q and k have axes (heads, positions, n) (got {q.shape} and {k.shape})")
    ahead = per_rank(q_first, "q_first") - per_rank(k_first, "k_first")
    found: tuple[int, ...] = tuple(ahead.clip(-q.shape[1], k.shape[1] - 1).tolist())
    return found[:1] if len({*found}) == 1 else found


def _wide(x: nodes.Node) -> nodes.Node:
    return nodes.make_cast(x, DType.FLOAT32) if x.dtype.bytes < DType.FLOAT32.bytes else x


def _made(name: str, operands: Sequence[Value], ahead: tuple[int, ...]) -> list[Value]:
    """The results of an operation, each with its shape."""
    operation = OPERATIONS[name]
    shapes = {"q": operands[0].shape, "k": operands[1].shape, "l": operands[0].shape[:2]}
    wanted = [shapes[letter] for letter in operation.operands]
    if len(shapes["q"]) != 3 or (shapes["k"][::2] != shapes["q"][::2] and "k" in operation.operands):
        raise Rejected(
            f"{name}: q and k have axes (heads, positions, n), of as many heads and as wide (got {shapes['q']} and"
            f" {shapes['k']})"
        )
    for x, shape in zip(operands, wanted, strict=True):
        if x.shape != shape:
            raise Rejected(
                f"{name}: operands must have the shapes {', '.join(map(str, wanted))} (got"
                f" {', '.join(str(x.shape) for x in operands)})"
            )
    heads, _, width = shapes["q"]
    attr = RowAttr(name=name, width=width, first=ahead, heads=heads if ahead else 1)
    node = nodes.make_rowwise(attr, [_wide(x.node) for x in operands])
    made, at = [], 0
    for letter in operation.results:
        size = prod(shapes[letter])
        part = nodes.make_view([node], maps.sliced((at,), size, 1, node.size, 1))
        made.append(Value(part, shapes[letter]))
        at += size
    return made
