"""The graphs of an emitted module as any rank would compile them, traced by the real torch_xla in one process.

Nothing is compiled or run. Set XLA_ALWAYS_ALLREDUCE=1: without it a single process has no collectives.
"""

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch_xla
from torch_xla.core.xla_builder import create_placeholder_tensor

from overlayccl_core.program.problem import Problem

Members = Sequence[tuple[int, ...]]


class Module:
    """An emitted module in a process that plays its ranks, one after the other."""

    def __init__(self, source: str) -> None:
        if os.environ.get("XLA_ALWAYS_ALLREDUCE") != "1":
            raise RuntimeError(
                "set XLA_ALWAYS_ALLREDUCE=1 before torch_xla is imported: it leaves out collectives"
            )
        self._device = torch_xla.device()
        self._names: dict[str, Any] = {"__name__": "lowered", "__doc__": None}
        exec(compile(source, "lowered", "exec"), self._names)

    def connect(self, rank: int, members: Members) -> None:
        """Become a rank. members: global ranks of every group that runs the problem at the same time."""
        ranks = sum(map(len, members))
        self._names.update(this_rank=lambda: rank, world_size=lambda: ranks)
        self._names["connect"](members, on=self._device)

    def graphs(self, problem: Problem) -> list[str]:
        """Return the HLO of each graph of the problem's direction, in order. No input or value has memory."""
        given = {port: _placeholder(spec.size, spec.dtype.value) for port, spec in problem.inputs.items()}
        steps = self._names[problem.direction.value]()
        there = {id(x): x for x in given.values()}  # computed by earlier graphs
        written: list[torch.Tensor] = []
        texts: list[str] = []

        def cut() -> None:
            """Add the graph that `torch_xla.sync()` would compile here: all live values not computed yet."""
            here = steps.gi_frame.f_locals.values() if steps.gi_frame else ()
            made = {id(x): x for x in (*here, *written) if isinstance(x, torch.Tensor) and id(x) not in there}
            if made:
                texts.append(torch_xla._XLAC._get_xla_tensors_hlo(list(made.values())))
                there.update(made)
            torch_xla._XLAC._clear_pending_irs(str(self._device))
            torch_xla._XLAC._set_all_reduce_token(str(self._device), None)

        self._names["boundary"] = cut
        try:
            event = next(steps)
            while True:
                if isinstance(event, self._names["Read"]):
                    event = steps.send(given[event.port])
                else:
                    written.append(event.value)
                    event = next(steps)
        except StopIteration:
            cut()
        return texts


def _placeholder(size: int, dtype: str) -> torch.Tensor:
    """Return a value without content."""
    return create_placeholder_tensor((size,), getattr(torch, dtype))
