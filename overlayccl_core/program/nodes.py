"""Values of a Program: interned nodes. Their constructors ARE the normal form.

A node is a flat value of `size` elements on every rank:

    input               a port of the Problem
    view                every layout operation (maps.py): rearranged elements of the operands laid end to end
    sum                 count * size elements -> their `count` blocks added; add(x, y) is the sum of a concat
    scale               times an exact ratio
    cast                another floating point type
    rowwise             an operation of rowwise.py, for nonlinear Problems
    five collectives    over replica groups, blocks in member order; collective_permute: a source for each rank

A view of a view composes. Scales move outwards past linear operations and multiply. Equal nodes are one object. A
sum of equal or of disjoint blocks is no sum; a sum of blocks with zeros adds only elements with several terms. So
two strategies differing in layout only have one form.
"""

import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from overlayccl_core.program import effort, map_algebra
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.kinds import (
    COALESCED,
    COLLECTIVES,
    NO_LABEL,
    DType,
    Kind,
    Label,
    Reduction,
    Rejected,
)
from overlayccl_core.program.maps import Map
from overlayccl_core.program.rowwise import Form, RowAttr
from overlayccl_core.program.view_form import Laid, normal_view

Port = tuple[str | int, ...]

MAX_RATIO_BITS = 256  # of the numerator and the denominator of a scale
MAX_ELEMENTS = 2**42  # of one value on a rank: keeps all index arithmetic inside int64


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAttr:
    """A port, and whether all ranks hold the same value of it."""

    port: Port
    equal: bool

    @property
    def key(self) -> bytes:
        """Bytes for the node's digest."""
        return repr((self.port, self.equal)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveAttr:
    """Groups, label and reduction of a collective (`reduction` acts in all_reduce and reduce_scatter)."""

    groups: Groups
    label: Label
    reduction: Reduction = Reduction.SUM

    @property
    def key(self) -> bytes:
        """Bytes for the node's digest."""
        return self.groups.digest + repr((*_label_key(self.label), self.reduction.value)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAttr:
    """sources[r]: the rank that sends to r, or -1: r gets zeros."""

    sources: tuple[int, ...]
    label: Label

    @property
    def key(self) -> bytes:
        """Bytes for the node's digest."""
        return repr((self.sources, _label_key(self.label))).encode()


def _label_key(label: Label) -> tuple[str, str, str]:
    return label.graph, label.issue.value, label.call


class Node:
    """One value on all ranks. Made by the constructors below only; equal nodes are identical objects.

    `key`: the attribute's bytes in the digest. `depth` counts the collectives on the longest path from an input.
    `facts` holds memoised analyses.
    """

    __slots__ = (
        "__weakref__",
        "attr",
        "depth",
        "digest",
        "dtype",
        "facts",
        "key",
        "kind",
        "operands",
        "size",
    )

    def __init__(
        self,
        kind: Kind,
        operands: tuple["Node", ...],
        key: bytes,
        attr: Any,
        size: int,
        dtype: DType,
        digest: bytes,
    ) -> None:
        self.kind = kind
        self.operands = operands
        self.key = key
        self.attr = attr
        self.size = size
        self.dtype = dtype
        self.digest = digest
        self.depth: int = max((x.depth for x in operands), default=0) + (kind in COLLECTIVES)
        self.facts: dict[Any, Any] = {}

    @property
    def bytes(self) -> int:
        """Bytes of the value on one rank."""
        return self.size * self.dtype.bytes

    @property
    def is_collective(self) -> bool:
        """True for the five collectives."""
        return self.kind in COLLECTIVES

    @property
    def port(self) -> Port:
        """Port of an input."""
        return self.attr.port  # type: ignore[no-any-return]

    @property
    def map(self) -> Map:
        """Map of a view."""
        return self.attr  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        """Number of blocks of a sum."""
        return self.attr  # type: ignore[no-any-return]

    @property
    def ratio(self) -> Fraction:
        """Factor of a scale."""
        return self.attr  # type: ignore[no-any-return]

    @property
    def row(self) -> RowAttr:
        """Operation and rows of a rowwise node."""
        return self.attr  # type: ignore[no-any-return]

    @property
    def groups(self) -> Groups:
        """Replica groups of a collective other than collective_permute."""
        return self.attr.groups  # type: ignore[no-any-return]

    @property
    def sources(self) -> tuple[int, ...]:
        """Source ranks of a collective_permute."""
        return self.attr.sources  # type: ignore[no-any-return]

    @property
    def label(self) -> Label:
        """Label of a collective."""
        return self.attr.label  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"{self.row.name if self.kind is Kind.ROWWISE else self.kind.value}[{self.size}]"


_interned: "weakref.WeakValueDictionary[bytes, Node]" = weakref.WeakValueDictionary()


def _intern(kind: Kind, operands: Sequence[Node], key: bytes, attr: Any, size: int, dtype: DType) -> Node:
    """The one node with this content. It lives as long as a Program holds it."""
    if size > MAX_ELEMENTS:
        raise Rejected(f"a value of {size} elements on a rank (limit {MAX_ELEMENTS}): make it smaller")
    if kind not in (Kind.VIEW, Kind.ROWWISE) and any(x.dtype is DType.INT64 for x in operands):
        raise Rejected(f"{kind.value} of ids: integers are looked up by (pick, one_hot), never computed with")
    head = f"{kind};{size};{dtype};{len(operands)};".encode()
    digest = hashlib.blake2b(b"".join([head, *(x.digest for x in operands), key]), digest_size=16).digest()
    node = _interned.get(digest)
    if node is None:
        node = _interned[digest] = Node(kind, tuple(operands), key, attr, size, dtype, digest)
    return node


# ---------------------------------------------------------------------------- constructors: the normal form
def make_input(port: Port, *, equal: bool, size: int, dtype: DType = DType.FLOAT32) -> Node:
    """A value of the Problem; `equal`: all ranks hold the same."""
    attr = InputAttr(port=port, equal=equal)
    return _intern(Kind.INPUT, (), attr.key, attr, size, dtype)


def make_view(operands: Sequence[Node], map_: Map, dtype: DType = DType.FLOAT32) -> Node:
    """Elements of the operands (laid end to end) rearranged by `map_`; `dtype` counts without operands only."""
    viewed = [x for x in operands if x.kind is Kind.VIEW]
    leaves = len(operands) + sum(len(x.operands) for x in viewed)
    effort.spend_on_layout(map_, leaves, [x.map for x in viewed])
    ratio, operands = _common_scale(operands)
    if ratio != 1:
        return make_scale(make_view(operands, map_), ratio)
    if len({x.dtype for x in operands}) > 1:
        raise Rejected(f"one layout of {sorted({x.dtype.value for x in operands})}: cast to one dtype first")
    dtype = operands[0].dtype if operands else dtype
    operands, map_ = _of_no_views(operands, map_)
    ratio, operands = _common_scale(operands)  # once more: a dropped operand may have another scale
    if ratio != 1:
        return make_scale(make_view(operands, map_), ratio)
    if len(operands) == 1 and map_.is_identity(operands[0].size):
        return operands[0]
    return _intern(Kind.VIEW, operands, map_.digest, map_, map_.size, dtype)


def make_scale(x: Node, ratio: Fraction | int) -> Node:
    """x times an exact ratio."""
    ratio = Fraction(ratio)
    if x.kind is Kind.SCALE:
        ratio, x = ratio * x.ratio, x.operands[0]
    if max(ratio.numerator.bit_length(), ratio.denominator.bit_length()) > MAX_RATIO_BITS:
        raise Rejected(f"a factor of more than {MAX_RATIO_BITS} bits: scale by fewer, smaller integers")
    return x if ratio == 1 else _intern(Kind.SCALE, (x,), str(ratio).encode(), ratio, x.size, x.dtype)


def make_sum(x: Node, count: int) -> Node:
    """The `count` equal blocks of x added."""
    if count == 1:
        return x
    if x.kind is Kind.SCALE:
        return make_scale(make_sum(x.operands[0], count), x.ratio)
    if count < 1 or x.size % count:
        raise Rejected(f"a sum of {count} blocks must divide its elements (got {x.size})")
    if x.kind is Kind.VIEW and (folded := map_algebra.fold(x.map, count)):
        how, one = folded
        return make_scale(make_view(x.operands, one, x.dtype), count if how == "equal" else 1)
    if x.kind is Kind.VIEW and (less := map_algebra.narrowed(x.map, count)):
        packed, terms, back = less
        return make_view(
            [make_sum(make_view(x.operands, packed, x.dtype), terms), *x.operands], back, x.dtype
        )
    return _intern(Kind.SUM, (x,), str(count).encode(), count, x.size // count, x.dtype)


def make_cast(x: Node, dtype: DType) -> Node:
    """x in another floating point type."""
    if dtype is DType.INT64:
        raise Rejected(f"cast of {x} to integers: those are ids, which the model gives")
    return x if x.dtype is dtype else _intern(Kind.CAST, (x,), b"", None, x.size, dtype)


def make_rowwise(attr: RowAttr, operands: Sequence[Node], dtype: DType | None = None) -> Node:
    """An operation on rows; a reduction of one-element rows is its operand. dtype: result type of a one_hot."""
    dtypes = [x.dtype for x in operands]
    names_ids = attr.operation.form in (Form.PICK, Form.ONE_HOT)
    if names_ids and dtypes.pop() is not DType.INT64:
        raise Rejected(f"{attr.name}: the last operand must be ids (got {operands[-1].dtype.value})")
    if DType.INT64 in dtypes:
        raise Rejected(f"{attr.name} of ids: integers are looked up by (pick, one_hot), never computed with")
    if len({*dtypes}) > 1:
        raise Rejected(f"{attr.name} of {sorted(d.value for d in {*dtypes})}: cast to one dtype first")
    if attr.operation.form is Form.HEADS and {*dtypes} & {DType.BFLOAT16, DType.FLOAT16}:
        raise Rejected(f"{attr.name} is in 32 bits at least: cast what has 16")
    if attr.operation.form is Form.REDUCE and attr.width == 1:
        return operands[0]
    try:
        size = attr.size([x.size for x in operands])
    except ValueError as error:
        raise Rejected(str(error)) from None
    return _intern(
        Kind.ROWWISE, operands, attr.key, attr, size, dtypes[0] if dtypes else dtype or DType.FLOAT32
    )


def make_collective(
    kind: Kind, x: Node, groups: Groups, label: Label = NO_LABEL, reduction: Reduction = Reduction.SUM
) -> Node:
    """A collective over replica groups; blocks of the larger side are in member order.

    Only kinds in COALESCED share calls: for others the label's `call` is cleared.
    """
    if label.call and kind not in COALESCED:
        label = replace(label, call="")
    if x.kind is Kind.SCALE and reduction is Reduction.SUM:
        return make_scale(make_collective(kind, x.operands[0], groups, label), x.ratio)
    g = groups.size
    if kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL) and x.size % g:
        raise Rejected(f"{kind.value}: {x.size} elements must divide over {g} ranks: pad to a multiple")
    size = x.size * g if kind is Kind.ALL_GATHER else x.size // g if kind is Kind.REDUCE_SCATTER else x.size
    attr = CollectiveAttr(groups=groups, label=label, reduction=reduction)
    return _intern(kind, (x,), attr.key, attr, size, x.dtype)


def make_permute(x: Node, sources: Sequence[int], label: Label = NO_LABEL) -> Node:
    """A collective_permute: rank r receives x of rank sources[r], or zeros for -1."""
    if x.kind is Kind.SCALE:
        return make_scale(make_permute(x.operands[0], sources, label), x.ratio)
    attr = PermuteAttr(sources=tuple(int(s) for s in sources), label=label)
    return _intern(Kind.COLLECTIVE_PERMUTE, (x,), attr.key, attr, x.size, x.dtype)


def rebuild(node: Node, operands: Sequence[Node]) -> Node:
    """The same operation on other operands."""
    match node.kind:
        case Kind.INPUT:
            return node
        case Kind.VIEW:
            return make_view(operands, node.map, node.dtype)
        case Kind.SCALE:
            return make_scale(operands[0], node.ratio)
        case Kind.SUM:
            return make_sum(operands[0], node.count)
        case Kind.CAST:
            return make_cast(operands[0], node.dtype)
        case Kind.ROWWISE:
            return make_rowwise(node.row, operands, node.dtype)
        case Kind.COLLECTIVE_PERMUTE:
            return make_permute(operands[0], node.sources, node.label)
        case _:
            return make_collective(node.kind, operands[0], node.groups, node.label, node.attr.reduction)


def verbatim(node: Node, operands: Sequence[Node]) -> Node:
    """The same operation on other operands of the same sizes, as it stands: lowered nodes need no normal form."""
    return _intern(node.kind, operands, node.key, node.attr, node.size, node.dtype)


def relabel(node: Node, operand: Node, label: Label) -> Node:
    """The same collective of `operand` under another label."""
    if node.kind is Kind.COLLECTIVE_PERMUTE:
        return make_permute(operand, node.sources, label)
    return make_collective(node.kind, operand, node.groups, label, node.attr.reduction)


def _of_no_views(operands: Sequence[Node], map_: Map) -> tuple[list[Node], Map]:
    """The same view, read from the operands of its operands' views, in order of use."""
    below = [x.operands if x.kind is Kind.VIEW else (x,) for x in operands]
    leaves = list(dict.fromkeys(leaf for viewed in below for leaf in viewed))
    number = {leaf: i for i, leaf in enumerate(leaves)}
    laid = tuple(
        Laid(tuple(number[leaf] for leaf in viewed), x.map if x.kind is Kind.VIEW else None)
        for x, viewed in zip(operands, below, strict=True)
    )
    used, normal = normal_view(tuple(leaf.size for leaf in leaves), laid, map_)
    return [leaves[i] for i in used], normal


def _common_scale(operands: Sequence[Node]) -> tuple[Fraction | int, Sequence[Node]]:
    if not any(x.kind is Kind.SCALE for x in operands):
        return 1, operands
    ratios = {x.ratio if x.kind is Kind.SCALE else Fraction(1) for x in operands}
    if len(ratios) != 1 or ratios == {1}:
        return 1, operands
    return ratios.pop(), [x.operands[0] for x in operands]


# ------------------------------------------------------------------------------------------- graph walks
def topological(roots: Iterable[Node], known: "set[Node] | Mapping[Node, Any]" = frozenset()) -> list[Node]:  # type: ignore[assignment]
    """All nodes below the roots, operands first, except nodes in `known` and those used only by them."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node | None] = [x for x in reversed(list(roots)) if x not in known]
    while stack:
        x = stack.pop()
        if x is None:  # all operands of the next one are in the order
            order.append(stack.pop())  # type: ignore[arg-type]
        elif x in seen:
            continue
        elif x.operands:
            seen.add(x)
            stack += (x, None)
            for y in reversed(x.operands):
                if y not in seen and y not in known:
                    stack.append(y)
        else:
            seen.add(x)
            order.append(x)
    return order


Outputs = dict[Port, Node]
Replacement = Callable[[Callable[[Node], Node]], Node]
