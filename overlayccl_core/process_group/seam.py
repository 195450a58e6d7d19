"""Where our groups come between torch and its library: where torch builds a process group.

`init_process_group`, `init_device_mesh` and `new_group` all end in one function of torch. While it runs, torch's
module finds our class under the name `ProcessGroup`. So torch itself builds, fills and registers our groups, under
the library's own name. `batch_isend_irecv` gets our class in the same way.

Each `import torch` loads this file where the package is installed. What it needs beyond torch waits for a group of
ours.
"""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import Backend
from torch.distributed import distributed_c10d as c10d

if TYPE_CHECKING:
    from .group import Group, Passage

TORCHS = c10d.ProcessGroup
NAME = "overlayccl"
"""What a script may give `init_process_group` in place of a library's name: torch's default library, through us."""


def install(passage: Callable[[], "Passage"], every: bool, library: str = "") -> None:
    """Put groups of ours in place of the process groups that torch builds from now on.

    Args:
        passage: Makes what each call passes through. It is called when the first group is built.
        every: Every group; else those after the first `init_process_group("overlayccl")`.
        library: What makes the calls in place of what the script asks for; empty: as the script asks.
    """
    build = c10d._new_process_group_helper
    ours: list[type[Group]] = []

    def helper(size: int, rank: int, ranks: list[int], backend: Any, *args: Any, **kwargs: Any) -> Any:
        named = str(backend) == NAME
        if (every or named) and not ours:
            ours.append(_class(passage()))
        if not ours:
            return build(size, rank, ranks, backend, *args, **kwargs)
        getattr(ours[0].passage, "groups_wait", lambda: None)()
        ours[0].made.append(ranks or list(range(size)))
        wanted = library or (_library() if named else backend)
        with _in_place_of_torchs(ours[0]):
            return build(size, rank, ranks, wanted, *args, **kwargs)

    Backend.register_backend(NAME, _unreached, devices=[])
    c10d._new_process_group_helper = helper
    dist.batch_isend_irecv = c10d.batch_isend_irecv = _batched(c10d.batch_isend_irecv, ours)


def _class(passage: "Passage") -> type["Group"]:
    from .group import Group

    return type("Group", (Group,), {"passage": staticmethod(passage)})


@contextmanager
def _in_place_of_torchs(ours: type) -> Iterator[None]:
    """Let torch's module find a class of ours under the name `ProcessGroup`."""
    c10d.ProcessGroup = ours
    try:
        yield
    finally:
        c10d.ProcessGroup = TORCHS


def _batched(batch: Callable[[Any], Any], ours: Container[type]) -> Callable[[Any], Any]:
    """Return torch's `batch_isend_irecv` for our groups, too.

    It sends one by one unless a group is of the very class `ProcessGroup`, and NCCL then waits forever.
    """

    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        group = getattr(next(iter(p2p_op_list), None), "group", None) or dist.group.WORLD
        with _in_place_of_torchs(type(group) if type(group) in ours else TORCHS):
            return batch(p2p_op_list)

    return batch_isend_irecv


def _library() -> str:
    """What torch takes by itself: gloo for tensors of the CPU, the accelerator's own library for its tensors."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return str(Backend.GLOO)
    return f"cpu:{Backend.GLOO},{accelerator.type}:{Backend.default_device_backend_map[accelerator.type]}"


def _unreached(*_: Any) -> None:
    raise RuntimeError('"overlayccl" stands for a whole process group: give it alone, not for one device.')
