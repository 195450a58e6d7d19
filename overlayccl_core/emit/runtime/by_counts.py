"""An exchange of equal chunks for a script whose counts change with every call: a mixture of experts."""

from __future__ import annotations

import math
from typing import Any

import torch

from overlayccl_core.emit.runtime.agreement import agree, agreed_counts, integers
from overlayccl_core.emit.runtime.calls import all_to_all_rows, my_group
from overlayccl_core.emit.runtime.connected import Connected
from overlayccl_core.emit.runtime.entry import oddity, shown
from overlayccl_core.emit.runtime.groups import gradients_flow, layout_of, refuse_second_derivative
from overlayccl_core.emit.runtime.packing import Counts, exchange_rows


def by_counts(connected: Connected, width: int | None = None) -> ByCounts:
    """Return the exchange of a Case for rows whose counts change. All ranks of the job call it, in the same order.

    Args:
        connected: The Case, of connect().
        width: Elements of a row, the same on all ranks (default: the Case's). It must divide a chunk.
    """
    agree({"the Case": connected.case, "the width of a row": width})
    return ByCounts(connected, width)


class ByCounts:
    """Rows to the ranks that they are for: what all_to_all_single does with splits.

    The rows for one rank are packed into a chunk of the Case, zeros behind them. If some rank has more rows for
    another one than a chunk has room for, all ranks make the library's exact call: no row is dropped. The plain way
    is always the exact call.

    Attributes:
        capacity: Rows of a chunk.
        calls: Calls so far.
        overflowed: Those of them beyond the capacity.
    """

    def __init__(self, connected: Connected, width: int | None) -> None:
        [spec] = connected.entry.inputs["forward"].values()
        chunk = math.prod(spec.shape) // connected.entry.ranks
        width = spec.shape[-1] if width is None else width
        if not isinstance(width, int) or width < 1 or chunk % width:
            raise ValueError(
                f"width must divide the {chunk} elements of {connected.case} for one rank (got {width!r}): deploy a"
                " Case with rows of this width"
            )
        self.capacity, self.calls, self.overflowed = chunk // width, 0, 0
        self._name, self._width, self._spec = f"the exchange by counts of {connected.case}", width, spec
        self._device, self._group = connected.device, connected.group(0)
        self._is_plain, self._agreement = connected.way == "plain", connected.agreement
        self._ranks, everybody = connected.ranks, (tuple(range(connected.entry.ranks)),)
        self._library = my_group(everybody, connected.members, connected.new_group)

    def __call__(self, rows: torch.Tensor, counts: Any) -> tuple[torch.Tensor, Counts]:
        """Exchange rows; gradients flow. All ranks call it.

        Args:
            rows: (sum of the counts, width), by destination.
            counts: Rows for each rank, N integers. For rows that go back, give the Counts that came with them on
                all ranks: then nothing has to be agreed.

        Returns:
            The rows that came, (sum of their counts, width), by source; and their Counts.

        Raises:
            ValueError: Rows or counts do not fit. Raised on all ranks, if they ask each other.
        """
        mine, is_agreed = integers(counts), isinstance(counts, Counts)
        wrong = self._wrong(rows, mine)
        if is_agreed or self._agreement.checks:
            kind = " with agreed counts" * is_agreed + " with gradients" * gradients_flow([rows])
            self._agreement.reach(self._name + kind, wrong)
        if not is_agreed:
            counts = agreed_counts(mine, self.capacity, self._ranks, self._library, self._device, wrong)
        self.calls += 1
        self.overflowed += counts.largest > self.capacity
        return _Exchanged.apply(self, counts, rows), counts.turned()

    def _wrong(self, rows: Any, counts: list[int]) -> str:
        """Return why rows or counts do not fit, or nothing."""
        if not self._spec.admits(rows, self._device.type) or rows.shape[1:] != (self._width,):
            takes = f"rows (n, {self._width}) {self._spec.dtype} on {self._device}"
            return f"{self._name} takes {takes}; got {shown(rows)}"
        if len(counts) != len(self._ranks) or min(counts) < 0 or sum(counts) != len(rows):
            takes = f"{len(self._ranks)} counts, none below 0, that sum to the {len(rows)} rows"
            return f"{self._name} takes {takes}; got {counts or 'no integers'}"
        if gradients_flow([rows]) and not any(self._group.differentiable):
            return f"{self._name} passes no gradients on: call it under torch.no_grad() or with detached rows"
        return ""

    def run(self, direction: str, rows: torch.Tensor, counts: Counts) -> torch.Tensor:
        """Exchange rows, unseen by autograd."""

        def uniform(chunks: torch.Tensor) -> torch.Tensor:
            return self._group.run(direction, [chunks], [layout_of(chunks)])[0]

        def exact(rows: torch.Tensor, counts: Counts) -> torch.Tensor:
            came, work = all_to_all_rows(rows.resolve_neg().contiguous(), counts, counts.back, self._library)
            work.wait()
            return came

        return exchange_rows(rows, counts, self.capacity, None if self._is_plain else uniform, exact)

    def gradient(self, cotangent: torch.Tensor, counts: Counts) -> torch.Tensor:
        """Exchange the gradient of the rows that came, the way back."""
        refuse_second_derivative(self._group)
        doing = f"the backward of {self._name}"
        wrong = f"{doing}: the gradient is a {shown(cotangent)}" if oddity(cotangent) else ""
        self._agreement.reach(doing, wrong)
        return self.run("backward", cotangent, counts.turned())


class _Exchanged(torch.autograd.Function):
    """Forward and backward of an exchange by counts."""

    @staticmethod
    def forward(ctx: Any, exchange: ByCounts, counts: Counts, rows: torch.Tensor) -> torch.Tensor:
        ctx.exchange, ctx.counts = exchange, counts
        return exchange.run("forward", rows, counts)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[None, None, torch.Tensor]:
        return None, None, ctx.exchange.gradient(cotangent, ctx.counts)
