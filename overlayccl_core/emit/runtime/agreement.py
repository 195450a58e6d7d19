"""All ranks the same, or the same error on all of them."""

from __future__ import annotations

import math
from typing import Any

import torch

from overlayccl_core.emit.runtime.calls import everybody_says
from overlayccl_core.emit.runtime.entry import Spec, port_text
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
    if spec.admits(x, device.type) and x.shape == (size,):
        return ""
    return f"{port_text(port)} is a flat tensor of {size} {spec.dtype} on {device}; got {shown(x)}"


def shown(x: Any) -> str:
    """What somebody brought: (64, 128) torch.float32 on cpu."""
    if not isinstance(x, torch.Tensor):
        return type(x).__name__
    return f"{tuple(x.shape)} {x.dtype} on {x.device}"
