"""The known ways as one writes them by hand in torch: what emitted modules are held against.

Every function takes this rank's inputs (port -> flat tensor) and where it runs, and returns its outputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from overlayccl_core.program.case import Case

Tensors = dict[tuple[Any, ...], torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The Case, this rank, and its groups: all ranks, those of its node, those at its place in their nodes."""

    case: Case
    rank: int
    world: Any = None
    within: Any = None
    across: Any = None

    @property
    def ranks(self) -> int:
        return self.case.ranks


def connect(case: Case, rank: int, new_group: Callable[[tuple[int, ...]], Any]) -> Where:
    """Make the groups, in one order on all ranks."""
    n, size = case.ranks, case.ranks_per_node
    world = new_group(tuple(range(n)))
    if size == n:
        return Where(case=case, rank=rank, world=world)
    nodes = [tuple(range(k, k + size)) for k in range(0, n, size)]
    places = [tuple(range(k, n, size)) for k in range(size)]
    made = {members: new_group(members) for members in [*nodes, *places]}
    mine = [next(made[m] for m in grouping if rank in m) for grouping in (nodes, places)]
    return Where(case=case, rank=rank, world=world, within=mine[0], across=mine[1])


# ------------------------------------------------------------------------------------------------- tp_mlp
def tp_developer(x: Tensors, at: Where) -> Tensors:
    out = {}
    for m in range(at.case["microbatches"]):
        for layer in range(at.case["layers"]):
            y = x["partial", m, layer].clone()
            dist.all_reduce(y, group=at.world)
            out["total", m, layer] = y
    return out


def tp_single_graph(x: Tensors, at: Where) -> Tensors:
    out = {}
    for layer in range(at.case["layers"]):
        ys = [x["partial", m, layer].clone() for m in range(at.case["microbatches"])]
        works = [dist.all_reduce(y, group=at.world, async_op=True) for y in ys]
        for m, (y, work) in enumerate(zip(ys, works, strict=True)):
            work.wait()
            out["total", m, layer] = y
    return out


def _by_layer(x: Tensors, at: Where, parts: int, total: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
    """Join the microbatches of a layer (padded to a multiple of `parts`), sum, hand out."""
    out = {}
    microbatches = at.case["microbatches"]
    for layer in range(at.case["layers"]):
        tensors = [x["partial", m, layer] for m in range(microbatches)]
        size = tensors[0].numel()
        if rest := -microbatches * size % parts:
            tensors.append(tensors[0].new_zeros(rest))
        summed = total(torch.cat(tensors))
        for m in range(microbatches):
            out["total", m, layer] = summed[m * size : (m + 1) * size]
    return out


def tp_merged(x: Tensors, at: Where) -> Tensors:
    def total(flat: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(flat, group=at.world)
        return flat

    return _by_layer(x, at, 1, total)


def _scatter_gather(flat: torch.Tensor, group: Any, ranks: int, between: Callable[..., Any]) -> torch.Tensor:
    share = flat.new_empty(flat.numel() // ranks)
    dist.reduce_scatter_tensor(share, flat, group=group)
    between(share)
    whole = torch.empty_like(flat)
    dist.all_gather_into_tensor(whole, share, group=group)
    return whole


def tp_reduce_scatter_all_gather(x: Tensors, at: Where) -> Tensors:
    return _by_layer(
        x, at, at.ranks, lambda flat: _scatter_gather(flat, at.world, at.ranks, lambda share: None)
    )


def tp_all_to_all_sum(x: Tensors, at: Where) -> Tensors:
    def total(flat: torch.Tensor) -> torch.Tensor:
        shares = torch.empty_like(flat)
        dist.all_to_all_single(shares, flat, group=at.world)
        whole = torch.empty_like(flat)
        dist.all_gather_into_tensor(whole, shares.view(at.ranks, -1).sum(0), group=at.world)
        return whole

    return _by_layer(x, at, at.ranks, total)


def tp_all_to_all_of_copies(x: Tensors, at: Where) -> Tensors:
    def total(flat: torch.Tensor) -> torch.Tensor:
        copies = flat.repeat(at.ranks)
        received = torch.empty_like(copies)
        dist.all_to_all_single(received, copies, group=at.world)
        return received.view(at.ranks, -1).sum(0)

    return _by_layer(x, at, 1, total)


def tp_bf16(x: Tensors, at: Where) -> Tensors:
    def total(flat: torch.Tensor) -> torch.Tensor:
        half = flat.to(torch.bfloat16)
        dist.all_reduce(half, group=at.world)
        return half.to(flat.dtype)

    return _by_layer(x, at, 1, total)


def tp_hierarchical(x: Tensors, at: Where) -> Tensors:
    size = at.case.ranks_per_node

    def total(flat: torch.Tensor) -> torch.Tensor:
        return _scatter_gather(flat, at.within, size, lambda share: dist.all_reduce(share, group=at.across))

    return _by_layer(x, at, size, total)


# -------------------------------------------------------------------------------------------- uniform_a2a
def a2a_gather_reduce_scatter(x: Tensors, at: Where) -> Tensors:
    send = x["send",]
    n = at.ranks
    gathered = send.new_empty(n * send.numel())
    dist.all_gather_into_tensor(gathered, send, group=at.world)
    ordered = gathered.view(n, n, -1).transpose(0, 1).contiguous()
    received = torch.empty_like(send)
    dist.reduce_scatter_tensor(received, ordered.view(-1), group=at.world)
    return {("received",): received.div_(n)}


def a2a_gather_slice(x: Tensors, at: Where) -> Tensors:
    send = x["send",]
    gathered = send.new_empty(at.ranks * send.numel())
    dist.all_gather_into_tensor(gathered, send, group=at.world)
    return {("received",): gathered.view(at.ranks, at.ranks, -1)[:, at.rank].reshape(-1)}


def a2a_native(x: Tensors, at: Where) -> Tensors:
    received = torch.empty_like(x["send",])
    dist.all_to_all_single(received, x["send",], group=at.world)
    return {("received",): received}


def a2a_ring(x: Tensors, at: Where) -> Tensors:
    n, rank = at.ranks, at.rank
    chunks = x["send",].view(n, -1)
    received, works = [chunks[rank]], []
    for d in range(1, n):
        y = torch.empty_like(chunks[0])
        works.append(dist.isend(chunks[(rank + d) % n], (rank + d) % n, tag=d))
        works.append(dist.irecv(y, (rank - d) % n, tag=d))
        received.append(y)
    for work in works:
        work.wait()
    return {("received",): torch.cat([received[(rank - source) % n] for source in range(n)])}


def a2a_two_steps(x: Tensors, at: Where) -> Tensors:
    send = x["send",]
    size = at.case.ranks_per_node
    by_place = send.view(at.ranks // size, size, -1).transpose(0, 1).reshape(-1)
    of_my_place = torch.empty_like(send)
    dist.all_to_all_single(of_my_place, by_place, group=at.within)
    by_node = of_my_place.view(size, at.ranks // size, -1).transpose(0, 1).reshape(-1)
    received = torch.empty_like(send)
    dist.all_to_all_single(received, by_node, group=at.across)
    return {("received",): received}


# ------------------------------------------------------------------------------------------------ grad_ar
def _tensors(x: Tensors, at: Where) -> list[int]:
    return (
        list(reversed(range(len(at.case["sizes"]))))
        if at.case["overlap"]
        else list(range(len(at.case["sizes"])))
    )


def grad_developer(x: Tensors, at: Where) -> Tensors:
    out = {}
    for i in _tensors(x, at):
        y = x["gradient", i].clone()
        dist.all_reduce(y, group=at.world)
        out["mean", i] = y.div_(at.ranks)
    return out


def grad_back_to_back(x: Tensors, at: Where) -> Tensors:
    order = _tensors(x, at)
    ys = [x["gradient", i].clone() for i in order]
    works = [dist.all_reduce(y, group=at.world, async_op=True) for y in ys]
    out = {}
    for i, y, work in zip(order, ys, works, strict=True):
        work.wait()
        out["mean", i] = y.div_(at.ranks)
    return out


def _flat(x: Tensors, at: Where, parts: int, mean: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
    order = _tensors(x, at)
    tensors = [x["gradient", i] for i in order]
    if rest := -sum(t.numel() for t in tensors) % parts:
        tensors.append(tensors[0].new_zeros(rest))
    means = mean(torch.cat(tensors))
    out, start = {}, 0
    for i in order:
        end = start + at.case["sizes"][i]
        out["mean", i] = means[start:end]
        start = end
    return out


def grad_flat(x: Tensors, at: Where) -> Tensors:
    def mean(flat: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(flat, group=at.world)
        return flat.div_(at.ranks)

    return _flat(x, at, 1, mean)


def grad_reduce_scatter_all_gather(x: Tensors, at: Where) -> Tensors:
    def mean(flat: torch.Tensor) -> torch.Tensor:
        return _scatter_gather(flat, at.world, at.ranks, lambda share: share.div_(at.ranks))

    return _flat(x, at, at.ranks, mean)


def grad_hierarchical(x: Tensors, at: Where) -> Tensors:
    size = at.case.ranks_per_node

    def across(share: torch.Tensor) -> None:
        dist.all_reduce(share, group=at.across)
        share.div_(at.ranks)

    return _flat(x, at, size, lambda flat: _scatter_gather(flat, at.within, size, across))


BY_HAND: Mapping[str, Mapping[str, Callable[[Tensors, Where], Tensors]]] = {
    "tp_mlp": {
        "developer": tp_developer,
        "single_graph": tp_single_graph,
        "merged_over_microbatches": tp_merged,
        "reduce_scatter_all_gather": tp_reduce_scatter_all_gather,
        "all_to_all_sum": tp_all_to_all_sum,
        "all_to_all_of_copies": tp_all_to_all_of_copies,
        "bf16_on_the_wire": tp_bf16,
        "hierarchical": tp_hierarchical,
    },
    "uniform_a2a": {
        "gather_reduce_scatter": a2a_gather_reduce_scatter,
        "gather_slice": a2a_gather_slice,
        "native": a2a_native,
        "permute_ring": a2a_ring,
        "two_step_hierarchical": a2a_two_steps,
    },
    "grad_ar": {
        "one_by_one": grad_developer,
        "reduce_back_to_back": grad_back_to_back,
        "flat": grad_flat,
        "buckets_32_mib": grad_flat,
        "hierarchical": grad_hierarchical,
        "reduce_scatter_all_gather": grad_reduce_scatter_all_gather,
    },
}
