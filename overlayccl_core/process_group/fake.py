"""One rank of many in a single process: torch's library "fake" makes the calls, and no other rank exists.

Its calls return at once and move nothing. An all_gather gives this rank's part for all, a sum stays the own
summand, and what another rank sends never comes. So sizes, order and lines are the script's; values and times not.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .calls import METHODS, argument, tensors
from .group import Group, plain
from .queue import QueuedWork

LIBRARY = "fake"


def prepare() -> None:
    """Make the library known to torch, and let this process be RANK of WORLD_SIZE without waiting for others."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401, it registers itself

    c10d.rendezvous = _alone


def passed(group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pass a call on. Its Work has the outputs as its result, which DDP reads; the library's own has none."""
    plain(group, method, args, kwargs)
    done: Future[None] = Future()
    done.set_result(None)
    return QueuedWork(done, list(tensors(argument(args, METHODS[method].outputs))))


def _alone(*_: Any, **__: Any) -> Iterator[tuple[dist.Store, int, int]]:
    """Stand for torch's `rendezvous`, which waits until all ranks are there."""
    yield dist.HashStore(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
