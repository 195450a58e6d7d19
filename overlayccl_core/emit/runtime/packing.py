"""Rows packed into equal chunks and out of them again: an exchange whose counts change with every call.

A Program's layout is fixed when it is traced, so the counts stay outside. The Program moves whole chunks, and its
proof, for all inputs, covers any number of rows up to the capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch


class Counts(tuple[int, ...]):
    """Rows for each rank of an exchange (or from each), agreed by all of them: a tuple of N integers.

    Attributes:
        back: Rows of the way back, by rank.
        largest: Most rows of any rank for another one. The same on all ranks.
    """

    back: tuple[int, ...]
    largest: int

    @classmethod
    def of(cls, rows: Iterable[int], back: Iterable[int], largest: int) -> Counts:
        counts = cls(rows)
        counts.back, counts.largest = tuple(back), largest
        return counts

    def turned(self) -> Counts:
        """Return the counts of the way back."""
        return Counts.of(self.back, self, self.largest)


def exchange_rows(
    rows: torch.Tensor,
    counts: Counts,
    capacity: int,
    uniform: Callable[[torch.Tensor], torch.Tensor] | None,
    exact: Callable[[torch.Tensor, Counts], torch.Tensor],
) -> torch.Tensor:
    """Exchange rows, unseen by autograd: by the uniform exchange if all counts fit, else by the exact one.

    All ranks take the same of the two, as `counts.largest` is the same on all.

    Args:
        rows: (sum(counts), ...), by destination. Without a second axis a row is an element.
        capacity: Rows for one rank that the uniform exchange has room for.
        uniform: Exchanges N chunks of capacity rows, one behind the other. None: always exact.
        exact: Exchanges the rows as they are.

    Returns:
        (sum(counts.back), ...): the rows that came, by source.
    """
    if uniform is None or counts.largest > capacity:
        return exact(rows, counts)
    zeros = rows.new_zeros(capacity, *rows.shape[1:])
    padded = torch.cat([x for part in rows.split(counts) for x in (part, zeros[len(part) :])])
    filled_and_not = [n for count in counts.back for n in (count, capacity - count)]
    return torch.cat(uniform(padded).split(filled_and_not)[::2])
