"""All ranks the same, or the same error on all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import index
from typing import Any

import torch

from overlayccl_core.emit.runtime.calls import everybody_counts, everybody_says
from overlayccl_core.emit.runtime.entry import Spec, oddity, port_text, shown
from overlayccl_core.emit.runtime.events import Events, Port, Read


def agree(mine: dict[str, Any]) -> None:
    """The same error on all ranks where they do not say the same."""
    said = everybody_says(mine)
    for rank, other in enumerate(said):
        for name, value in said[0].items():
            if other[name] != value:
                raise RuntimeError(
                    f"ranks differ in {name}: {value!r} on rank 0, {other[name]!r} on rank {rank}:"
                    " start all ranks alike"
                )


class Arguments:
    """What a Case is proven for and tensors do not show: each call brings this rank's integers of it.

    proven: by name, integers of each rank; ranks: the global ones; group: theirs, as `my_group` gives it (None
    where nothing is to be brought).
    """

    def __init__(
        self,
        proven: Mapping[str, tuple[tuple[int, ...], ...]],
        ranks: tuple[int, ...],
        group: Any,
        device: torch.device,
    ) -> None:
        self._proven, self._ranks, self._group, self._device = proven, ranks, group, device

    def check(self, what: str, given: Mapping[str, Any]) -> None:
        """Raise on all ranks where one brings what is not proven there. All ranks call it before the calls."""
        if unknown := [name for name in given if name not in self._proven]:
            takes = ", ".join(self._proven) or "none"
            raise ValueError(f"{what} has no argument {unknown[0]!r}: it takes {takes}")
        if not self._proven:
            return
        mine: list[int] = []
        for name, rows in self._proven.items():
            row = _integers(given.get(name, ()))
            mine += [1, *row] if len(row) == len(rows[0]) else [0] * (1 + len(rows[0]))
        for place, told in enumerate(everybody_counts(mine, self._group, self._device)):
            for name, rows in self._proven.items():
                (there, *row), told = told[: 1 + len(rows[0])], told[1 + len(rows[0]) :]
                if not there or tuple(row) != rows[place]:
                    raise ValueError(
                        f"rank {self._ranks[place]}: {what} is proven for {name}={list(rows[place])} of this rank"
                        f" and got {row if there else f'no {len(row)} integers'}: pass its {name} with every call,"
                        " and deploy a Case for those that you have"
                    )


def _integers(given: Any) -> list[int]:
    """Empty for what is no list of integers."""
    try:
        return [index(x) for x in (given.tolist() if hasattr(given, "tolist") else given)]
    except TypeError:
        return []


class Agreement:
    """OVERLAYCCL_CHECK=1: the ranks of a Case say what they are about to do, and go on or fail together.

    ranks: the global ones; group: theirs, as `my_group` gives it.
    """

    def __init__(self, ranks: tuple[int, ...], group: Any) -> None:
        self._ranks, self._group = ranks, group

    def reach(self, doing: str, wrong: str = "") -> None:
        """Raise on all ranks where they do different things, or where something is wrong on one."""
        said = everybody_says((doing, wrong), self._group)
        for rank, (_, its_wrong) in zip(self._ranks, said, strict=True):
            if its_wrong:
                raise ValueError(f"rank {rank}: {its_wrong}")
        for rank, (other, _) in zip(self._ranks, said, strict=True):
            if other != said[0][0]:
                raise RuntimeError(
                    f"rank {self._ranks[0]} runs {said[0][0]}, rank {rank} runs {other}: all ranks must do the same"
                    " in the same order"
                )

    def on(self, events: Events, what: str, specs: dict[Port, Spec], device: torch.device) -> Events:
        """The same events; what answers a Read must fit on all ranks before the next statement runs."""
        answer: Any = None
        try:
            while True:
                event = events.send(answer)
                answer = yield event
                if isinstance(event, Read):
                    self.reach(
                        f"{what} up to {port_text(event.port)}", _wrong(answer, event.port, specs, device)
                    )
        except StopIteration:
            pass


def _wrong(x: Any, port: Port, specs: dict[Port, Spec], device: torch.device) -> str:
    spec = specs[port]
    size = math.prod(spec.shape)
    if spec.admits(x, device.type) and x.shape == (size,) and x.is_contiguous() and not x.is_neg():
        return ""
    lies = "" if not isinstance(x, torch.Tensor) or oddity(x) or x.is_contiguous() else ", strided"
    return f"{port_text(port)} is a flat tensor of {size} {spec.dtype} on {device}; got {shown(x)}{lies}"
