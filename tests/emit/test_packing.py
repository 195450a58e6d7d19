"""Rows packed into chunks of an exchange, all ranks in one process."""

from itertools import product

import pytest
import torch

from overlayccl_core.emit.runtime.packing import Counts, exchange_rows

CAPACITY = 3
EDGES = (0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1)
Matrix = list[list[int]]


def exchanged(rows: list[torch.Tensor], matrix: Matrix) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What each rank gets by the uniform exchange, and what it packed; nothing is packed where counts overflow."""
    largest = max(map(max, matrix))
    counts = [
        Counts.of(give, back, largest) for give, back in zip(matrix, zip(*matrix, strict=True), strict=True)
    ]
    packed: list[torch.Tensor] = []

    def kept(chunks: torch.Tensor) -> torch.Tensor:
        packed.append(chunks)
        return chunks

    def run(rank: int, uniform) -> torch.Tensor:
        return exchange_rows(
            rows[rank], counts[rank], CAPACITY, uniform, lambda _rows, _counts: came(rows, matrix)[rank]
        )

    for rank in range(len(rows)):
        run(rank, kept)
    chunks = [x.split(CAPACITY) for x in packed]
    return [run(rank, lambda _: torch.cat([x[rank] for x in chunks])) for rank in range(len(rows))], packed  # noqa: B023


def came(rows: list[torch.Tensor], matrix: Matrix) -> list[torch.Tensor]:
    """The definition of all_to_all_single with splits."""
    parts = [x.split(give) for x, give in zip(rows, matrix, strict=True)]
    return [torch.cat([part[to] for part in parts]) for to in range(len(rows))]


@pytest.mark.parametrize("shape", [(), (2,)], ids=["elements", "rows"])
def test_any_counts_up_to_the_capacity_are_packed_and_beyond_it_all_ranks_take_the_exact_call(
    shape: tuple[int, ...],
) -> None:
    for a, b, c, d in product(EDGES, repeat=4):
        matrix = [[a, b], [c, d]]
        rows = [1 + 100 * rank + torch.rand(sum(give), *shape) for rank, give in enumerate(matrix)]
        results, packed = exchanged(rows, matrix)
        assert all(map(torch.equal, results, came(rows, matrix))), matrix
        assert len(packed) == (2 if max(a, b, c, d) <= CAPACITY else 0), matrix
        for give, chunks in zip(matrix, packed, strict=False):
            for count, chunk in zip(give, chunks.split(CAPACITY), strict=True):
                assert bool((chunk[:count] > 0).all()) and not chunk[count:].any(), matrix


def test_counts_turn_around() -> None:
    counts = Counts.of([1, 2], [3, 0], 5)
    there = counts.turned()
    assert (there, there.back, there.largest) == ((3, 0), (1, 2), 5) and there.turned() == counts
