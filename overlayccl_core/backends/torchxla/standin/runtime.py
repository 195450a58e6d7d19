"""torch_xla.runtime: this rank's number, and the number of ranks."""

from __future__ import annotations

import torch.distributed as dist


def world_size() -> int:
    """Return the number of ranks; 1 if this process has not met the others, as in the real one."""
    return dist.get_world_size() if dist.is_initialized() else 1


def global_ordinal() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def device_type() -> str:
    """Return a name that never passes for a device."""
    return "STANDIN"
