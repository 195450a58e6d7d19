"""torch_xla.runtime: which rank this is, and of how many."""

from __future__ import annotations

import torch.distributed as dist


def world_size() -> int:
    """How many ranks the job has; 1 where this process has not met the others, as with the real one."""
    return dist.get_world_size() if dist.is_initialized() else 1


def global_ordinal() -> int:
    """This rank's number."""
    return dist.get_rank() if dist.is_initialized() else 0


def device_type() -> str:
    """What is found here must never pass for a device."""
    return "STANDIN"
