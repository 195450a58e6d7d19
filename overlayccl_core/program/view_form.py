"""The normal form of a view: of no views, operands in order of use; worked out once for all equal layouts.

It depends on layouts only, not on values: each viewed value is a leaf, known by its number and its size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlayccl_core.program import map_algebra, maps
from overlayccl_core.program.maps import Map

Normal = tuple[tuple[int, ...], Map]


@dataclass(slots=True)
class _Kept:
    """Normal forms with few runs. All are dropped before they take much memory: a run takes 16 bytes, here and
    in the key.
    """

    forms: dict[tuple[object, ...], Normal]
    runs: int = 0

    MOST_RUNS: ClassVar = 2**22
    MOST_RUNS_OF_ONE: ClassVar = 1024

    def add(self, key: tuple[object, ...], made_of: Iterable[Map], normal: Normal) -> None:
        runs = [normal[1].runs, *(one.runs for one in made_of)]
        if max(runs) > self.MOST_RUNS_OF_ONE:
            return
        if self.runs + sum(runs) > self.MOST_RUNS:
            self.forms.clear()
            self.runs = 0
        self.forms[key] = normal
        self.runs += sum(runs)


_kept = _Kept({})


@dataclass(frozen=True, slots=True)
class Laid:
    """An operand of a view: a view of `leaves` by `map`, or (`map` is None) a leaf itself."""

    leaves: tuple[int, ...]
    map: Map | None


def normal_view(sizes: tuple[int, ...], operands: tuple[Laid, ...], map_: Map) -> tuple[tuple[int, ...], Map]:
    """Return (leaves, Map): the view of the operands as a view of leaves, each once, in order of use.

    The layers of a model share the result: it is kept if it and what it is made of have few runs.

    Args:
        sizes: Sizes of the leaves, numbered in the order in which the operands name them.
    """
    key = sizes, operands, map_
    if key in _kept.forms:
        return _kept.forms[key]
    normal = _in_order_of_use(sizes, _through_views(sizes, operands, map_))
    _kept.add(key, (map_, *(x.map for x in operands if x.map is not None)), normal)
    return normal


def _through_views(sizes: Sequence[int], operands: Sequence[Laid], map_: Map) -> Map:
    """The Map that reads all leaves, laid end to end, instead of the operands read by `map_`."""
    each_leaf_once = [Laid((leaf,), None) for leaf in range(len(sizes))]
    if list(operands) == each_leaf_once:
        return map_
    offset = _offsets(range(len(sizes)), sizes)
    inner = []
    for x in operands:
        if x.map is None:
            inner.append(Map(1, sizes[x.leaves[0]], [0], [offset[x.leaves[0]]]))
        elif x.leaves:
            inner.append(map_algebra.compose(x.map, _placement(x.leaves, sizes, offset)))
        else:
            inner.append(x.map)
    return map_algebra.compose(map_, maps.side_by_side(inner))


def _in_order_of_use(sizes: Sequence[int], map_: Map) -> tuple[tuple[int, ...], Map]:
    """Drop leaves without a reader, order the others by first use."""
    every = tuple(range(len(sizes)))
    if len(every) == 1:
        return (every, map_) if (map_.sources >= 0).any() else ((), map_)
    if not every:
        return every, map_
    ends = np.cumsum(sizes)
    _, _, start, _ = map_algebra.split_sources(map_, ends)
    which, first = np.unique(np.searchsorted(ends, start, "right"), return_index=True)
    used = tuple(which[np.argsort(first)].tolist())
    if used == every:
        return every, map_
    offset = {**dict.fromkeys(every, maps.ZERO), **_offsets(used, sizes)}
    return used, map_algebra.compose(map_, _placement(every, sizes, offset))


def _offsets(leaves: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """leaf -> its start, with these leaves laid end to end."""
    offset, base = {}, 0
    for leaf in leaves:
        offset[leaf] = base
        base += sizes[leaf]
    return offset


def _placement(leaves: Sequence[int], sizes: Sequence[int], offset: Mapping[int, int]) -> Map:
    """The Map that lays leaves end to end, reading each from offset[leaf] on."""
    keys = np.cumsum([0, *(sizes[leaf] for leaf in leaves)])
    return Map(1, int(keys[-1]), keys[:-1], [offset[leaf] for leaf in leaves])
