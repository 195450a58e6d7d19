"""torch_xla.core.xla_model: its collectives, computed at once by torch.distributed on CPU tensors.

Mistakes that break the real one are errors here, on all ranks, because ranks announce each call before it: graphs
that differ between ranks, replica groups of unequal sizes or without every rank exactly once, pairs naming a rank
twice. It keeps these properties of the real one:

- without a process group it is alone, and its all_reduce then returns its input, not even scaled;
- a single tensor is reduced into a new one, a list in place;
- in one graph the first element of each result, times 0, is added to the next collective's input, to keep the
  order. If it is NaN or infinite, all later results become NaN. Only all_reduce is excepted: an operand of its own
  keeps its order.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.backends.torchxla.standin import runtime

REDUCE_SUM = "sum"
REDUCE_MUL = "mul"
REDUCE_AND = "and"
REDUCE_OR = "or"
REDUCE_MIN = "min"
REDUCE_MAX = "max"
_OPS = {
    REDUCE_SUM: dist.ReduceOp.SUM,
    REDUCE_MUL: dist.ReduceOp.PRODUCT,
    REDUCE_MIN: dist.ReduceOp.MIN,
    REDUCE_MAX: dist.ReduceOp.MAX,
}
Groups = Sequence[Sequence[int]]


def all_reduce(
    reduce_type: str,
    inputs: Any,
    scale: float = 1.0,
    groups: Groups | None = None,
    pin_layout: bool = True,
) -> Any:
    """Reduce: a tensor into a new one; a list in place, and return the list."""
    tensors = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
    if runtime.world_size() == 1 and os.environ.get("XLA_ALWAYS_ALLREDUCE") != "1":
        return inputs.clone() if isinstance(inputs, torch.Tensor) else inputs
    group = _called("all_reduce", tensors, groups, reduce_type, scale, pin_layout)
    given = [_scaled(_reduce(x.clone(), reduce_type, group), scale) for x in tensors]
    if isinstance(inputs, torch.Tensor):
        return given[0]
    for x, reduced in zip(tensors, given, strict=True):
        x.copy_(reduced)
    return inputs


def all_gather(
    value: torch.Tensor,
    dim: int = 0,
    groups: Groups | None = None,
    output: torch.Tensor | None = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> torch.Tensor:
    """Join the members' values along axis `dim` in the order of the group. `output` is not offered here."""
    _not_offered(output=output)
    group = _called("all_gather", [value], groups, dim)
    given = _chain.added_to(value)
    if len(group) == 1:
        return _chain.follow(given.clone())
    parts = [torch.empty_like(given) for _ in group]
    dist.all_gather(parts, given, group=_process_group(group))
    return _chain.follow(torch.cat(parts, dim))


def reduce_scatter(
    reduce_type: str,
    input: torch.Tensor,
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups | None = None,
    output: torch.Tensor | None = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> torch.Tensor:
    """Return this rank's share of the reduced value. `output` is not offered here."""
    _not_offered(output=output)
    group = _called("reduce_scatter", [input], groups, reduce_type, scale, scatter_dim, shard_count)
    _check_split(input, scatter_dim, shard_count, group)
    reduced = _reduce(_chain.added_to(input).clone(), reduce_type, group)
    mine = reduced.chunk(shard_count, scatter_dim)[group.index(runtime.global_ordinal())].contiguous()
    return _chain.follow(_scaled(mine, scale))


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups | None = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Send part k of the value to member k; join the received parts in their order."""
    group = _called("all_to_all", [value], groups, split_dimension, concat_dimension, split_count)
    _check_split(value, split_dimension, split_count, group)
    given = [part.contiguous() for part in _chain.added_to(value).chunk(split_count, split_dimension)]
    came = [part.clone() for part in given]
    if len(group) > 1:
        dist.all_to_all(came, given, group=_process_group(group))
    return _chain.follow(torch.cat(came, concat_dimension))


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Send along pairs of (from, to); a rank without a sender gets zeros."""
    senders, receivers = [p[0] for p in pairs], [p[1] for p in pairs]
    _say("collective_permute", [value], tuple(map(tuple, pairs)))
    for ranks in (senders, receivers):
        if len(set(ranks)) < len(ranks) or not set(ranks) <= set(range(runtime.world_size())):
            raise ValueError(f"collective_permute: pairs must name ranks, each once on a side (got {pairs})")
    me, given = runtime.global_ordinal(), _chain.added_to(value).contiguous()
    came = torch.zeros_like(given)
    works = []
    for sender, receiver in pairs:
        if sender == receiver == me:
            came = given.clone()
        elif sender == me:
            works.append(dist.isend(given, receiver))
        elif receiver == me:
            works.append(dist.irecv(came, sender))
    for work in works:
        work.wait()
    return _chain.follow(came)


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Return every rank's payload, by rank."""
    if replicas and len(replicas) != runtime.world_size():
        raise ValueError("Only global rendezvous is supported")
    if runtime.world_size() == 1:
        return [payload]
    start_graph()
    said: list[Any] = [None] * runtime.world_size()
    dist.all_gather_object(said, payload)
    return said


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Do nothing: no operation is under way."""


class _Chain:
    """The number that orders the collectives of one graph: 0, or NaN after a result that is no finite number."""

    def __init__(self) -> None:
        self.value = 0.0

    def follow(self, x: torch.Tensor) -> torch.Tensor:
        """Put the next collective behind x."""
        if x.numel() and not _is_set("DISABLE_NUMERIC_CC_TOKEN"):
            self.value *= float(x.view(-1)[0].item())
        return x

    def added_to(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.value if math.isnan(self.value) and x.is_floating_point() else x


def _is_set(variable: str) -> bool:
    """Read a boolean variable as torch_xla does."""
    value = os.environ.get(variable, "").strip()
    return value == "true" or (value.isdigit() and int(value) != 0)


_chain = _Chain()


def start_graph() -> None:
    """Start a new chain, independent of earlier collectives."""
    _chain.value = 0.0


def _called(kind: str, tensors: Sequence[torch.Tensor], groups: Groups | None, *more: Any) -> tuple[int, ...]:
    """Return this rank's group, after all ranks announced the same call and their groups are right."""
    world = runtime.world_size()
    given = tuple(map(tuple, groups or [range(world)]))
    _say(kind, tensors, given, *more)
    if len({len(group) for group in given}) > 1:
        raise AssertionError("Replica groups must have the same number of replicas/shards.")
    if sorted(rank for group in given for rank in group) != list(range(world)):
        raise ValueError(f"{kind}: replica groups must hold each of {world} ranks once (got {given})")
    for group in given if len(given[0]) > 1 else ():  # all ranks make all groups, in one order
        _process_group(group)
    return next(group for group in given if runtime.global_ordinal() in group)


def _say(kind: str, tensors: Iterable[torch.Tensor], *more: Any) -> None:
    """Announce a call; RuntimeError on all ranks if they call different things: their graphs differ."""
    if runtime.world_size() == 1:
        return
    mine = f"{kind} of {[(tuple(x.shape), str(x.dtype)) for x in tensors]} {more}"
    digests = torch.empty(runtime.world_size(), 1, dtype=torch.int64)
    dist.all_gather(list(digests), torch.tensor([zlib.crc32(mine.encode())]))
    if bool((digests == digests[0]).all()):
        return
    said: list[Any] = [None] * runtime.world_size()
    dist.all_gather_object(said, mine)
    for rank, other in enumerate(said):
        if other != said[0]:
            raise RuntimeError(
                f"graphs differ: rank 0 calls {said[0]}, rank {rank} {other}: trace the same on all ranks"
            )


@cache
def _process_group(group: tuple[int, ...]) -> Any:
    if group == tuple(range(runtime.world_size())):
        return dist.group.WORLD
    return dist.new_group(list(group), sort_ranks=False)


def _reduce(x: torch.Tensor, reduce_type: str, group: tuple[int, ...]) -> torch.Tensor:
    if reduce_type not in _OPS:
        raise ValueError(f"there is no reduction {reduce_type!r} here: {', '.join(_OPS)}")
    if len(group) > 1:
        dist.all_reduce(x, op=_OPS[reduce_type], group=_process_group(group))
    return x


def _scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x if scale == 1.0 else x * scale


def _check_split(x: torch.Tensor, dim: int, count: int, group: Sequence[int]) -> None:
    if count != len(group) or x.shape[dim] % count:
        raise ValueError(
            f"axis {dim} of {tuple(x.shape)} must be cut into as many equal parts as a group has ranks"
            f" (got {count} parts, {len(group)} ranks)"
        )


def _not_offered(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"the stand-in has no {name}=")
