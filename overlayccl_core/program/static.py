"""Static integers of a strategy, for all ranks or for each, checked when given."""

from collections.abc import Sequence

import numpy as np

from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.maps import Ints
from overlayccl_core.program.recorder import active

PerRank = int | Sequence[int]


def per_rank(value: PerRank, what: str) -> Ints:
    """int64[1 or N]. Rejected, with `what` in the message, for anything but one integer, or one for each rank."""
    if type(value) is int:
        return np.array([value], np.int64)
    rows = np.atleast_1d(integers_of(value, what))
    if rows.ndim != 1:
        raise Rejected(f"{what}: one int, or one per rank")
    check_rows(len(rows), what)
    return rows


def check_rows(rows: int, what: str, *, whole: bool = False) -> None:
    """Rejected unless there are as many rows as ranks, or (not for a `whole` table) one for all of them."""
    ranks = active().problem.ranks
    if rows != ranks and (whole or rows != 1):
        raise Rejected(f"{what}: one entry per rank means {ranks} (got {rows})")


def integers_of(value: object, what: str) -> Ints:
    """int64 of the shape of nested lists; Rejected if they hold anything else, or nothing."""
    try:
        integers = np.asarray(value)
    except ValueError:
        integers = np.empty(0)
    if integers.dtype.kind not in "iub" or integers.size == 0:
        raise Rejected(f"{what}: must be integers in a list or a list of equally long lists")
    return integers.astype(np.int64)


def extremes(table: Ints) -> str:
    """`0..7`: the least and the largest, for messages."""
    return f"{table.min()}..{table.max()}" if table.size else "nothing"
