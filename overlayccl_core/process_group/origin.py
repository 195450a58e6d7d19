"""Who makes a call: the line of the script, and the part of torch between the two."""

import gc
import os
import sys
import threading
from types import FrameType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from .parts import BACKWARD, WRAPPERS, part_of

TORCH = os.path.dirname(torch.__file__) + os.sep
NOT_THE_SCRIPT = (os.path.dirname(__file__) + os.sep, TORCH, "<")
"""How a frame's file begins that is no line of the script, nor of a library of the script's."""
MOST_FRAMES = 128


def origin() -> tuple[str, str]:
    """Return (`file:line` of the script, part of torch with its module) of the call that is being made.

    The part is empty where the script calls the collective itself, and "backward" where C++ calls it while
    gradients are computed: DDP's buckets. For a device it does so in a thread of its own, while the main thread
    is in `backward()`.
    """
    found = _origin(sys._getframe(2))
    return found if any(found) else _origin(sys._current_frames().get(threading.main_thread().ident or 0))


def _origin(frame: FrameType | None) -> tuple[str, str]:
    part, inner = "", ""
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if not file.startswith(NOT_THE_SCRIPT) and not file.endswith(WRAPPERS):
            return f"{file}:{frame.f_lineno}", part
        if file.startswith(TORCH):
            inside = file[len(TORCH) :]
            inner = inner or inside
            part = part or _part(inside, inner, frame)
        frame = frame.f_back
    return "", part


def _part(inside: str, inner: str, frame: FrameType) -> str:
    name = part_of(inside, inner)
    if name in ("", BACKWARD):
        return name
    module = getattr(frame.f_locals.get("self"), "_module_fqn", None)
    return f"{name} {module}" if module else "" if name == "FSDP" and _has_group_above(frame) else name


def _has_group_above(frame: FrameType) -> bool:
    """Whether a frame further out knows which module FSDP works on."""
    above = frame.f_back
    while above is not None and above.f_code.co_filename.startswith(TORCH):
        if getattr(above.f_locals.get("self"), "_module_fqn", None):
            return True
        above = above.f_back
    return False


def ddp_buckets() -> list[dict[str, Any]]:
    """Return the buckets of each DDP model of this process: bytes, and parameters in the order of readiness."""
    found = []
    for model in gc.get_objects():
        if issubclass(type(model), DistributedDataParallel):  # isinstance would ask proxies for their class
            told = model._get_ddp_logging_data()
            names = [name for name, parameter in model.module.named_parameters() if parameter.requires_grad]
            sizes, members = (
                told.get("rebuilt_bucket_sizes", ""),
                told.get("rebuilt_per_bucket_param_indices", ""),
            )
            found += [
                {"bytes": int(size), "parameters": [names[int(index)] for index in indices.split()]}
                for size, indices in zip(sizes.split(", "), members.split(", "), strict=True)
                if size
            ]
    return found
