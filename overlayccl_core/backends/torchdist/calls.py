"""The calls of torch.distributed, printed into modules (`emit/runtime/calls.pyi` declares them).

This file is read and never imported: modules stand alone, so it contains all it needs.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import AllreduceCoalescedOptions

MAX = dist.ReduceOp.MAX
# Since torch 2.13 the old names warn.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Held:
    """A weak reference to a process group: torch alone keeps it alive.

    A group that outlives destroy_process_group() can crash Python at exit, while gloo's threads drop works.
    """

    __slots__ = ("_group",)

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = weakref.ref(group)

    def get(self) -> dist.ProcessGroup:
        """Return the group; RuntimeError if it has been destroyed."""
        group = self._group()
        if group is None:
            raise RuntimeError("its process group was destroyed: connect again after init_process_group")
        return group


def all_reduce(
    x: torch.Tensor, group: Held, op: dist.ReduceOp = dist.ReduceOp.SUM
) -> tuple[torch.Tensor, dist.Work]:
    """Start in place: the result takes over x."""
    return x, dist.all_reduce(x, op=op, group=group.get(), async_op=True)


def all_reduce_coalesced(
    xs: list[torch.Tensor], group: Held, op: dist.ReduceOp = dist.ReduceOp.SUM
) -> tuple[list[torch.Tensor], dist.Work]:
    """Start in place, as torch.distributed.all_reduce_coalesced does, but return a Work to wait for."""
    options = AllreduceCoalescedOptions()
    options.reduceOp, options.asyncOp = op, True
    return xs, group.get().allreduce_coalesced(xs, options)


def all_gather(x: torch.Tensor, size: int, group: Held) -> tuple[torch.Tensor, dist.Work]:
    """Start; the result has `size` elements."""
    y = x.new_empty(size)
    return y, _all_gather(y, x, group=group.get(), async_op=True)


def reduce_scatter(
    x: torch.Tensor, size: int, group: Held, op: dist.ReduceOp = dist.ReduceOp.SUM
) -> tuple[torch.Tensor, dist.Work]:
    """Start; the result has `size` elements."""
    y = x.new_empty(size)
    return y, _reduce_scatter(y, x, op=op, group=group.get(), async_op=True)


def all_to_all(x: torch.Tensor, group: Held) -> tuple[torch.Tensor, dist.Work]:
    """Start; the result is as large as x."""
    y = torch.empty_like(x)
    return y, dist.all_to_all_single(y, x, group=group.get(), async_op=True)


class Works:
    """Several works, waited for as one."""

    __slots__ = ("works",)

    def __init__(self, works: Iterable[dist.Work]) -> None:
        self.works = works

    def wait(self) -> None:
        for work in self.works:
            work.wait()


def all_to_all_rows(
    x: torch.Tensor, give: Sequence[int], take: Sequence[int], group: Held
) -> tuple[torch.Tensor, dist.Work]:
    """Start; the result has sum(take) rows."""
    y = x.new_empty(sum(take), *x.shape[1:])
    return y, dist.all_to_all_single(y, x, list(take), list(give), group=group.get(), async_op=True)


def collective_permute(
    x: torch.Tensor, peers: tuple[int | None, int | None], tag: int, group: Held | None = None
) -> tuple[torch.Tensor, Works]:
    """Start.

    Args:
        peers: Global ranks to send to and to receive from (None: no one; source -1: this rank itself).
        tag: Unique to this module; other sends between the same ranks do not meet it.
        group: A group of all ranks, if the library knows no tags.
    """
    to, source = peers
    if source == -1:
        return x.clone(), Works(())
    y = torch.zeros_like(x) if source is None else torch.empty_like(x)
    among = None if group is None else group.get()
    # the receive first: gloo says that it is ready behind what this rank sends
    calls = [] if source is None else [(dist.irecv, y, source)]
    if to is not None:
        calls.append((dist.isend, x, to))
    if x.device.type == "cpu":
        return y, Works([call(t, peer, group=among, tag=tag) for call, t, peer in calls])
    # on a device one kernel does both: in sequence, ranks could wait for each other
    operations = [dist.P2POp(call, t, peer, among, tag) for call, t, peer in calls]
    return y, Works(dist.batch_isend_irecv(operations) if calls else ())


def peers_of(sources: tuple[int, ...], rank: int, ranks: tuple[int, ...]) -> tuple[int | None, int | None]:
    """Return this rank's (to, source). sources[r]: the sender to r, -1 for none; ranks: the global ones."""
    if sources[rank] == rank:
        return None, -1
    to = next((ranks[r] for r, source in enumerate(sources) if source == rank), None)
    return to, ranks[sources[rank]] if sources[rank] >= 0 else None


def this_rank() -> int:
    """Return the global rank of this process."""
    return int(dist.get_rank())


def world_size() -> int:
    """Return the number of ranks of the job."""
    return int(dist.get_world_size())


def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], dist.ProcessGroup],
) -> Held:
    """Return this rank's process group; every rank makes all groups of all concurrent problems, in one order.

    Raises:
        ValueError: A group has other ranks than requested, or another order: blocks lie in the group's order.
    """
    mine, me = None, this_rank()
    for ranks in members:
        for group in replica_groups:
            wanted = tuple(ranks[r] for r in group)
            made = new_group(wanted)
            if me in wanted:
                mine = made
                _check_ranks(made, wanted)
    return Held(mine)


def _check_ranks(group: dist.ProcessGroup, wanted: tuple[int, ...]) -> None:
    there = tuple(dist.get_process_group_ranks(group))
    if there != wanted:
        raise ValueError(
            f"new_group{wanted} gave the group of {there}: it has to give the group of these global ranks, in this"
            " order (torch sorts them: dist.new_group(list(ranks), sort_ranks=False))"
        )


def make_group(ranks: tuple[int, ...]) -> dist.ProcessGroup:
    """Return a process group with blocks in the order of `ranks`."""
    if ranks == tuple(range(world_size())):
        return dist.group.WORLD
    ordered = {} if list(ranks) == sorted(ranks) else {"sort_ranks": False}
    return dist.new_group(list(ranks), **ordered, **_as_world())


def _as_world() -> dict[str, Any]:
    """Return the timeout and options of the script's own group: torch gives a new group neither.

    A backend without options has torch's.
    """
    world = dist.group.WORLD
    backends = [world._get_backend(device) for device in world._device_types]
    options = {one.name(): told for one in backends if (told := getattr(one, "options", None)) is not None}
    timeouts = [one._timeout for one in options.values()]
    options.pop("gloo", None)  # torch makes it of a timeout alone
    others = [copy.deepcopy(one) for one in options.values()]  # a new group writes its ranks into them
    return {"timeout": timeouts[0] if timeouts else None, "pg_options": others[0] if others else None}


# world -> its groups by name: None if this rank is not a member
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[Any, Held | None]] = weakref.WeakKeyDictionary()


def _made_once(name: Any, make: Callable[[], dist.ProcessGroup]) -> Held | None:
    """Return the group of this name in this world, made on the first call."""
    of_world = _made.setdefault(dist.group.WORLD, {})
    if name not in of_world:
        group = make()
        of_world[name] = None if group == dist.GroupMember.NON_GROUP_MEMBER else Held(group)
    return of_world[name]


def kept_group(ranks: tuple[int, ...]) -> dist.ProcessGroup | None:
    """Return the process group of some global ranks, made once for all Cases; None if this rank is no member."""
    group = _made_once(ranks, lambda: make_group(ranks))
    return None if group is None else group.get()


def permute_group(library: str) -> Held | None:
    """Return a group of all ranks for this module's permutes, made once; None for gloo.

    Only gloo has tags to tell them from other sends.
    """
    return None if library == "gloo" else _made_once("permutes", lambda: dist.new_group(**_as_world()))


def everybody_says(mine: Any, group: Held | None = None) -> list[Any]:
    """Return each rank's object (of a group: each member's), by rank; it must be picklable."""
    among = None if group is None else group.get()
    said: list[Any] = [None] * dist.get_world_size(among)
    dist.all_gather_object(said, mine, group=among)
    return said


def check_started() -> None:
    """Raise RuntimeError if this process has not met the others yet."""
    if not dist.is_initialized():
        raise RuntimeError("there is no process group yet: call torch.distributed.init_process_group first")


def found(device: torch.device) -> dict[str, str]:
    """Return the library and the versions found here."""
    configured = dist.get_backend_config()
    library = dict(part.split(":") for part in configured.split(",")).get(device.type, configured)
    versions = {"library": library, "torch": metadata.version("torch")}
    if library == "neuron":
        versions["torch-neuronx"] = metadata.version("torch-neuronx")
    if library == "nccl":
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return versions
