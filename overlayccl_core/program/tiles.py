"""Large values made of small ones where they are used: nothing has to hold those of all ranks.

A large value is cut into atoms, stretches that no operation of its Program cuts (`atoms.py`). In each atom a few
elements, its lanes, follow each other over and over. Position by position all copies mean the same, so the
Program's results for the small value give those for the large one.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.maps import Ints

Values = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The lanes of a large value's atoms."""

    lanes: int  # elements repeated in an atom; an atom of fewer elements has fewer
    runs: tuple[tuple[int, int], ...]  # (number of atoms, elements of each), from the front

    @classmethod
    def of(cls, lanes: int, widths: Ints) -> "Tiles":
        """Make the tiles of atoms of these widths."""
        runs = ((len(list(alike)), int(width)) for width, alike in groupby(widths.tolist()))
        return cls(lanes=lanes, runs=tuple(runs))

    @property
    def small(self) -> int:
        """Elements of the small value."""
        return sum(count * min(self.lanes, width) for count, width in self.runs)

    @property
    def large(self) -> int:
        """Elements of the large value."""
        return sum(count * width for count, width in self.runs)

    @property
    def atoms(self) -> int:
        """Number of atoms."""
        return sum(count for count, _ in self.runs)

    def of_lanes(self) -> Ints:
        """Indices of the small value's elements, in its order, among `lanes` of every atom."""
        widths = np.repeat([width for _, width in self.runs], [count for count, _ in self.runs])
        return np.flatnonzero(np.arange(self.lanes) < widths[:, None])

    def without_room(self) -> Ints:
        """Indices, among `lanes` of every atom, of the elements without room in it."""
        return np.setdiff1d(np.arange(self.atoms * self.lanes), self.of_lanes())

    def element(self, index: int) -> int:
        """The first element of the large value made of element `index` among `lanes` of every atom."""
        atom, lane = divmod(index, self.lanes)
        before = 0
        for count, width in self.runs:
            if atom < count:
                break
            atom, before = atom - count, before + count * width
        return before + atom * width + lane

    def spread(self, small: Values) -> Values:
        """The large value: [small] -> [large]."""
        parts = [
            np.tile(atoms, (1, -(-width // atoms.shape[1])))[:, :width].ravel()
            for atoms, width in self._runs_of(small)
        ]
        return np.concatenate(parts)

    def fold(self, large: Values) -> tuple[Values, Values]:
        """Return the first copy of the lanes, and the copy farthest from it: [large] -> [small] each.

        If these two are right, all are. The first copy fills up an incomplete last copy.
        """
        off = np.zeros(max(-(-width // self.lanes) for _, width in self.runs))
        for atoms in self._atoms_of(large):
            for number, part in enumerate(self._copies(atoms)):
                off[number] += _distance(part, atoms[:, : part.shape[1]])
        farthest = int(np.argmax(off))
        first, other = [], []
        for atoms in self._atoms_of(large):
            first.append(atoms[:, : self.lanes].ravel())
            one = atoms[:, : self.lanes].copy()
            for number, part in enumerate(self._copies(atoms)):
                if number == farthest:
                    one[:, : part.shape[1]] = part
            other.append(one.ravel())
        return np.concatenate(first), np.concatenate(other)

    def _runs_of(self, small: Values) -> Iterator[tuple[Values, int]]:
        at = 0
        for count, width in self.runs:
            lanes = min(self.lanes, width)
            yield small[at : at + count * lanes].reshape(count, lanes), width
            at += count * lanes

    def _atoms_of(self, large: Values) -> Iterator[Values]:
        at = 0
        for count, width in self.runs:
            yield large[at : at + count * width].reshape(count, width)
            at += count * width

    def _copies(self, atoms: Values) -> Iterator[Values]:
        return (atoms[:, at : at + self.lanes] for at in range(0, atoms.shape[1], self.lanes))


def bits(x: Values) -> int:
    """A digest of the bits of all elements."""
    return int.from_bytes(hashlib.blake2b(x.tobytes(), digest_size=8).digest(), "big")


def _distance(x: Values, y: Values) -> float:
    """Sum of squares of the difference; infinite if a NaN meets a number."""
    if np.array_equal(x, y):
        return 0.0
    with np.errstate(all="ignore"):
        off = x.astype(np.float64) - y
        off[np.isnan(x) & np.isnan(y)] = 0
        return float(np.nan_to_num(np.square(off), nan=np.inf).sum())
