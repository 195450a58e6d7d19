"""Layout, with torch alone: pieces joined, rows picked by a table or by ids, tables written by a formula."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def join(table: Sequence[tuple[int, int, int]], operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """Join this rank's pieces (operand or -1 for zeros, start, length)."""
    if all(i >= 0 for i, _, _ in table):
        return torch.cat([operands[i][a : a + n] for i, a, n in table])
    joined, at = operands[0].new_zeros(sum(n for _, _, n in table)), 0
    for i, a, n in table:
        if i >= 0:
            joined[at : at + n] = operands[i][a : a + n]
        at += n
    return joined


def pick_rows(x: torch.Tensor, width: int, table: tuple[torch.Tensor, torch.Tensor | None]) -> torch.Tensor:
    """Return rows of `width` elements by index; `holes` (or None) are the places that stay zero."""
    index, holes = table
    rows = x.view(-1, width).index_select(0, index)
    if holes is not None:
        rows.index_fill_(0, holes, 0)
    return rows.view(-1)


def row_table(
    runs: Sequence[tuple[int, int]], device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return (row index, places of zeros or None) from runs (first row or -1, rows)."""
    index = _index(runs).to(device)
    holes = (index < 0).nonzero().view(-1)
    return index.clamp_(min=0), holes if holes.numel() else None


def _index(runs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Return the rows' index on the host, not on a script's default device."""
    host = torch.device("cpu")
    parts = [
        torch.full((n,), -1, device=host) if s < 0 else torch.arange(s, s + n, device=host) for s, n in runs
    ]
    return torch.cat(parts)


def masked_rows(x: torch.Tensor, width: int, table: tuple[torch.Tensor, torch.Tensor | None]) -> torch.Tensor:
    """Return rows of `width` elements by index, with zeros under the mask (or None). One graph for all ranks."""
    index, mask = table
    rows = x.view(-1, width).index_select(0, index)
    return (rows if mask is None else rows.masked_fill(mask, 0)).view(-1)


def mask_table(
    runs: Sequence[tuple[int, int]], zeros: bool, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return (row index, mask of zeros) from runs (first row or -1, rows); zeros: some rank has some."""
    index = _index(runs)
    mask = (index < 0).view(-1, 1)
    return index.clamp_(min=0).to(torch.int32).to(device), mask.to(device) if zeros else None


def shifted(distance: int, ranks: int) -> tuple[int, ...]:
    """Return sources of a collective_permute: every rank receives from the one `distance` further."""
    return tuple((rank + distance) % ranks for rank in range(ranks))


def pick(x: torch.Tensor, ids: torch.Tensor, first: int, width: int) -> torch.Tensor:
    """Pick from each row of `width` elements the one named by its id, counted from `first`; 0 if it names none."""
    place = ids - first
    inside = (place >= 0) & (place < width)
    found = x.view(-1, width).gather(1, place.clamp(0, width - 1).view(-1, 1)).view(-1)
    return found.masked_fill_(~inside, 0)


def one_hot(ids: torch.Tensor, first: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    """Return for each id a row of `width` elements with 1 at its place, counted from `first`, and 0 elsewhere."""
    return (ids.view(-1, 1) == torch.arange(first, first + width, device=ids.device)).to(dtype).view(-1)
