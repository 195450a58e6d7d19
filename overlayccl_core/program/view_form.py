"""The normal form of a view: of no views, operands in order of use; worked out once for all equal layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.maps import Map

if TYPE_CHECKING:
    from overlayccl_core.program.nodes import Node

_normal_views: dict[tuple[Any, ...], tuple[tuple[int, ...], Map]] = {}
_MOST_NORMAL_VIEWS = 4096
_MOST_RUNS_KEPT = 1024


def normal_view(operands: list[Node], map_: Map) -> tuple[list[Node], Map]:
    """The view as a view of no views, operands in order of use.

    Which elements come from where depends on the layouts only, not on the values: the layers of a model share
    the work, which is kept.
    """
    below = [x.operands if x.kind is Kind.VIEW else (x,) for x in operands]
    leaves = list(dict.fromkeys(leaf for group in below for leaf in group))
    place = {leaf: i for i, leaf in enumerate(leaves)}
    key = (
        map_.digest,
        tuple(leaf.size for leaf in leaves),
        tuple((tuple(place[y] for y in g), _layout(x)) for x, g in zip(operands, below, strict=True)),
    )
    if key not in _normal_views:
        used, normal = _in_order_of_use(*_through_views(operands, map_))
        if normal.runs > _MOST_RUNS_KEPT:
            return used, normal
        if len(_normal_views) >= _MOST_NORMAL_VIEWS:
            _normal_views.clear()
        _normal_views[key] = tuple(place[x] for x in used), normal
    order, normal = _normal_views[key]
    return [leaves[i] for i in order], normal


def _layout(x: Node) -> bytes:
    return x.map.digest if x.kind is Kind.VIEW else b""


def _through_views(operands: list[Node], map_: Map) -> tuple[list[Node], Map]:
    """Replace operands that are views by what they view; an operand appears once."""
    leaves: list[Node] = []
    for x in operands:
        leaves.extend(x.operands if x.kind is Kind.VIEW else (x,))
    distinct = list(dict.fromkeys(leaves))
    if distinct == operands:
        return operands, map_
    offset = _offsets(distinct)
    inner = []
    for x in operands:
        if x.kind is not Kind.VIEW:
            inner.append(Map(1, x.size, [0], [offset[x]]))
        elif x.operands:
            inner.append(map_algebra.compose(x.map, _placement(x.operands, offset)))
        else:
            inner.append(x.map)
    return distinct, map_algebra.compose(map_, maps.side_by_side(inner))


def _in_order_of_use(operands: list[Node], map_: Map) -> tuple[list[Node], Map]:
    """Drop operands that nothing reads, order the others by first use."""
    if len(operands) == 1:
        return (operands, map_) if (map_.sources >= 0).any() else ([], map_)
    if not operands:
        return operands, map_
    ends = np.cumsum([x.size for x in operands])
    _, _, start, _ = map_algebra.split_sources(map_, ends)
    which, first = np.unique(np.searchsorted(ends, start, "right"), return_index=True)
    used = [operands[i] for i in which[np.argsort(first)]]
    if used == operands:
        return operands, map_
    offset = {**dict.fromkeys(operands, maps.ZERO), **_offsets(used)}
    return used, map_algebra.compose(map_, _placement(operands, offset))


def _offsets(parts: Sequence[Node]) -> dict[Node, int]:
    offset, base = {}, 0
    for x in parts:
        offset[x] = base
        base += x.size
    return offset


def _placement(parts: Sequence[Node], offset: Mapping[Node, int]) -> Map:
    """The Map that lays `parts` end to end, read from a space where each starts at offset[part]."""
    keys = np.cumsum([0, *(x.size for x in parts)])
    return Map(1, int(keys[-1]), keys[:-1], [offset[x] for x in parts])
