"""torch_xla itself: devices, and cuts between graphs."""

from __future__ import annotations

import torch

from overlayccl_core.backends.torchxla.standin import xla_model

__version__ = "stand-in"


def device(index: int | None = None) -> torch.device:
    """Return the CPU."""
    return torch.device("cpu")


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Start a new graph: everything is computed already, only the order of collectives starts anew."""
    xla_model.start_graph()
