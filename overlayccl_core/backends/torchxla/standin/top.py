"""torch_xla itself: devices, and where graphs are cut."""

from __future__ import annotations

import torch

from overlayccl_core.backends.torchxla.standin import xla_model

__version__ = "stand-in"


def device(index: int | None = None) -> torch.device:
    """Where tensors are: the CPU."""
    return torch.device("cpu")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Everything is computed already; what orders collectives starts anew with the next graph."""
    xla_model.start_graph()
