"""Times the training steps of a script that nobody edits, and keeps its losses: two runs of it can be compared."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .recorder import job, leave_together
from .steps import at_each_step


class Stopwatch:
    """Times the first `steps` training steps of this process, then ends it together with all ranks.

    Args:
        folder: Gets `rank-<r>.json` once they are over: ends of the steps in ns, the losses, and `said`.
        said: What else is written, looked at once they are over.
    """

    def __init__(self, folder: Path, steps: int, said: Mapping[str, Mapping[str, Any]]) -> None:
        self._folder, self._steps, self._said = folder, steps, said
        self._ends: list[int] = []
        self._losses: list[list[torch.Tensor]] = [[]]
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._noted
        at_each_step(self._end_step)

    def _noted(self, tensors: Any, *args: Any, **kwargs: Any) -> None:
        """Run a backward pass; what it begins at is a loss if it is one number."""
        if isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
            self._losses[-1].append(tensors.detach().clone())
        self._backward(tensors, *args, **kwargs)

    def _end_step(self) -> None:
        self._ends.append(time.perf_counter_ns())
        if len(self._ends) < self._steps:
            self._losses.append([])
            return
        file = self._folder / f"rank-{job()['rank']}.json"
        losses = [[one.item() for one in step] for step in self._losses]
        partial = file.with_suffix(".part")
        said = {of: dict(one) for of, one in self._said.items()}
        partial.write_text(json.dumps({"ends": self._ends, "losses": losses, **said}))
        partial.replace(file)
        leave_together()
