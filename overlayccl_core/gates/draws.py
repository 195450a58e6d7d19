"""Inputs of a proof, arbitrary behind their valid elements, and the comparable parts of its outputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.gates.verdict import Checks, ProofCheck
from overlayccl_core.program.arithmetics import Array
from overlayccl_core.program.atoms import AtomPair
from overlayccl_core.program.meaning import RankData, classes, guard
from overlayccl_core.program.nodes import Port

ALL = -1  # a count of elements: all are valid
Counts = Sequence[int] | NDArray[np.int64]


def drawn_inputs(
    pair: AtomPair, ranks: int, draw: Callable[[tuple[int, int]], Array], checks: Checks
) -> dict[Port, Array]:
    """Draw port -> [K, size], own values for every rank and port; K = 1 if all ranks hold the same, else N."""
    nodes = pair.inputs
    guard(sum((1 if x.attr.equal else ranks) * x.size for x in nodes.values()))
    inputs: dict[Port, Array] = {}
    shared: dict[tuple[int, int], Array] = {}
    for port, x in sorted(nodes.items(), key=lambda item: repr(item[0])):
        shape = (1 if x.attr.equal else ranks, x.size)
        data = draw(shape)
        if ProofCheck.INDEPENDENT_PORTS not in checks:
            data = shared.setdefault(shape, data)
        if ProofCheck.INDEPENDENT_RANKS not in checks:
            data = np.repeat(data[:1], len(data), 0)
        if ProofCheck.INVALID_INPUTS not in checks:
            data = with_invalid(data, pair.valid_inputs.get(port), 0)
        inputs[port] = data
    return inputs


def with_invalid(data: Array, valid: Counts | None, value: float) -> Array:
    """Put `value` behind the valid leading elements: [N, size], or the data as it is if all are valid."""
    if valid is None:
        return data
    behind = np.arange(data.shape[1]) >= np.asarray(valid)[:, None]
    changed: Array = np.where(behind, data.dtype.type(value), data)
    return changed


def compared(valid: Counts | None, *rows: NDArray[np.int64], ranks: int) -> list[tuple[int, slice]]:
    """Return (rank, slice of its valid elements) for one rank of each class with equal counts and `rows`."""
    counts = np.full(ranks, ALL) if valid is None else np.asarray(valid)
    told = [row[:ranks].tolist() for row in (counts, *rows)]
    _, first = classes(list(zip(*told, strict=True)))
    return [
        (int(rank), slice(None if counts[rank] == ALL else counts[rank]))
        for rank in first
        if counts[rank] != 0
    ]


def compared_values(
    valid: Mapping[Port, Counts], got: Mapping[Port, RankData], want: Mapping[Port, RankData], ranks: int
) -> Iterator[tuple[Port, int, Array, Array]]:
    """Yield (port, rank, its valid elements in got, and in want) for every rank to compare."""
    for port, a in got.items():
        b = want[port]
        for rank, part in compared(valid.get(port), a.row, b.row, ranks=ranks):
            yield port, rank, a.on(rank)[part], b.on(rank)[part]
