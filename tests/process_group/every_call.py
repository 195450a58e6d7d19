"""The torchrun target of test_seam: each public way to communicate, its results, and the methods that it reached.

usage: every_call.py FILE [named|record|tuned [FOLDER]]. Rank 0 writes FILE: name -> [results of all ranks,
methods], and what else the script sees. FOLDER: of the records, or of the ways.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.nn.functional import all_reduce as differentiable_all_reduce
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from overlayccl_core.process_group import group, seam
from overlayccl_core.process_group.calls import tensors
from overlayccl_core.process_group.recorder import StepRecorder
from overlayccl_core.process_group.tuned import Tuned

METHODS: list[str] = []
FILE, MODE, *FOLDER = *sys.argv[1:], *[""] * (3 - len(sys.argv))


class Seen:
    """A passage, and the methods that pass through it."""

    def __init__(self, passage: group.Passage) -> None:
        self._passage = passage

    def __call__(self, ours: group.Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        METHODS.append(method)
        return self._passage(ours, method, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._passage, name)


if MODE:
    MADE = {
        "record": lambda: StepRecorder(Path(*FOLDER), whole=True, skip=0),
        "tuned": lambda: Tuned(Path(*FOLDER)),
    }
    PASSAGE = Seen(MADE.get(MODE, lambda: group.plain)())
    seam.install(lambda: PASSAGE, every=MODE != "named")
init_process_group("overlayccl" if MODE == "named" else "gloo")
R, N = dist.get_rank(), dist.get_world_size()
PAIR, TWIN = dist.new_group([0, 1]), dist.new_group([0, 1], backend="cpu:gloo")
MESH = init_device_mesh("cpu", (N,))


def mine(*shape: int) -> torch.Tensor:
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape) * (R + 1)


def rows(count: int = 8) -> list[torch.Tensor]:
    return [torch.zeros(count) for _ in range(N)]


def in_place(way: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.Tensor:
    x = mine(8)
    way(x, *args, **kwargs)
    return x


def into(shape: int | list[torch.Tensor], way: Callable[..., Any], *args: Any) -> Any:
    out = torch.zeros(shape) if isinstance(shape, int) else shape
    way(out, *args)
    return out


CALLS: dict[str, Callable[[], Any]] = {
    "all_reduce": lambda: in_place(dist.all_reduce),
    "all_reduce max": lambda: in_place(dist.all_reduce, dist.ReduceOp.MAX),
    "all_reduce strided": lambda: in_place(lambda x: dist.all_reduce(x[::2])),
    "all_reduce async": lambda: in_place(lambda x: dist.all_reduce(x, async_op=True).wait()),
    "all_reduce in a pair": lambda: in_place(lambda x: dist.all_reduce(x, group=PAIR)),
    "all_reduce, then its future": lambda: in_place(
        lambda x: dist.all_reduce(x, async_op=True).get_future().wait()
    ),
    "all_reduce of what autograd saved": lambda: saved(),
    "all_reduce in inference mode": lambda: inference(),
    "all_reduces on two groups of the same ranks": lambda: issued(
        [8, 8, 8, 8], groups=[PAIR, TWIN], waits=[3, 0, 2, 1]
    ),
    "all_reduces, awaited later": lambda: issued([8, 3, 272, 4, 8], waits=[4, 1, 0, 3, 2]),
    "a bundle": lambda: issued([5, 6, 7]),
    "a bundle, then others of its calls": lambda: issued([5, 6, 7, 7, 5, 6, 5]),
    "a bundle that one rank looks into": lambda: looked_into(),
    "a bundle around a send": lambda: around(),
    "a bundle around a call of another group": lambda: issued([5, 6, 7], groups=[PAIR, PAIR, TWIN]),
    "all_reduce coalesced": lambda: coalesced(),
    "reduce": lambda: in_place(dist.reduce, 1)[: 8 * (R == 1)],
    "broadcast": lambda: in_place(dist.broadcast, 1),
    "all_gather": lambda: into(rows(), dist.all_gather, mine(8)),
    "all_gather_into_tensor": lambda: into(8 * N, dist.all_gather_into_tensor, mine(8)),
    "all_gather_into_tensor of a part of it": lambda: gathered_in_place(),
    "all_gather_into_tensor with gaps": lambda: into(
        16 * N, lambda x, y: dist.all_gather_into_tensor(x[::2], y), mine(8)
    ),
    "all_gather_into_tensor of another dtype": lambda: refused(
        lambda: dist.all_gather_into_tensor(torch.zeros(8 * N, dtype=torch.float64), mine(8))
    ),
    "all_to_all_single of another size": lambda: refused(
        lambda: dist.all_to_all_single(torch.zeros(5), mine(4))
    ),
    "split_group": lambda: refused(lambda: dist.split_group(split_ranks=[[0, 1]])),
    "gather": lambda: gathered(),
    "scatter": lambda: into(4, dist.scatter, [mine(4) + i for i in range(N)] if R == 0 else None),
    "reduce_scatter": lambda: into(4, dist.reduce_scatter, [mine(4) + i for i in range(N)]),
    "reduce_scatter_tensor": lambda: into(4, dist.reduce_scatter_tensor, mine(4 * N)),
    "all_to_all": lambda: into(rows(2), dist.all_to_all, [mine(2) + i for i in range(N)]),
    "all_to_all_single": lambda: into(2 * N, dist.all_to_all_single, mine(2 * N)),
    "all_to_all_single, counts": lambda: into(
        N + 1 if R == 0 else N - 1, dist.all_to_all_single, mine(N), *counts()
    ),
    "send, recv": lambda: sent(dist.send, dist.recv),
    "recv from anybody": lambda: sent(dist.send, lambda x, _: dist.recv(x)),
    "batch_isend_irecv": lambda: exchanged(),
    "objects": lambda: objects(),
    "barrier": lambda: dist.barrier(),
    "monitored_barrier": lambda: dist.monitored_barrier(),
    "functional all_reduce": lambda: functional.all_reduce(mine(4), "sum", MESH) + 0,
    "functional all_gather": lambda: functional.all_gather_tensor(mine(4), 0, MESH) + 0,
    "functional reduce_scatter": lambda: functional.reduce_scatter_tensor(mine(4 * N), "sum", 0, MESH) + 0,
    "functional all_to_all": lambda: functional.all_to_all_single(mine(N), None, None, MESH) + 0,
    "functional coalesced": lambda: [
        x + 0 for x in functional.all_reduce_coalesced([mine(4), mine(3)], "sum", MESH)
    ],
    "differentiable": lambda: differentiable(),
    "DTensor": lambda: distribute_tensor(mine(8, 8), MESH, [Shard(0)]).full_tensor(),
    "DDP": lambda: ddp(),
    "FSDP2": lambda: fsdp(),
}


def coalesced() -> list[torch.Tensor]:
    both = [mine(3), mine(5)]
    with dist._coalescing_manager(group=dist.group.WORLD, async_ops=False):
        for one in both:
            dist.all_reduce(one)
    return both


def issued(sizes: list[int], groups: list[Any] | None = None, waits: list[int] | None = None) -> Any:
    """All calls, then all waits, the groups in turn."""
    given = [mine(size) for size in sizes]
    works = [
        dist.all_reduce(x, group=groups[i % len(groups)] if groups else None, async_op=True)
        for i, x in enumerate(given)
    ]
    for i in waits or range(len(works)):
        works[i].wait()
    return given


def looked_into() -> list[torch.Tensor]:
    """Each rank after another call of the bundle, in a way of its own."""
    found = []
    looks: list[Callable[[dist.Work], Any]] = [
        lambda work: work.is_completed(),
        lambda work: work.wait(),
        lambda work: work.get_future().wait(),
        lambda work: None,
    ]
    for turn in range(8):
        given, works = [mine(size) for size in (5, 6, 7)], []
        for i, x in enumerate(given):
            works.append(dist.all_reduce(x, async_op=True))
            if i == (turn + R) % 3:
                looks[(turn // 2 + R) % 4](works[i])
        for work in works:
            work.wait()
        found += given
    return found


def around() -> list[torch.Tensor]:
    first, between, last = mine(5), mine(2), mine(6)
    works = [dist.all_reduce(first, async_op=True)]
    if R < 2:
        (dist.send if R == 0 else dist.recv)(between, 1 - R)
    works.append(dist.all_reduce(last, async_op=True))
    for work in works:
        work.wait()
    return [first, between, last]


def saved() -> torch.Tensor:
    x = torch.ones(8, requires_grad=True)
    y = x * mine(8)
    z = y * y
    dist.all_reduce(y.detach())
    z.sum().backward()
    return x.grad


def inference() -> list[torch.Tensor]:
    with torch.inference_mode():
        return issued([8, 8])


def gathered_in_place() -> torch.Tensor:
    out = torch.zeros(8 * N)
    out[8 * R : 8 * (R + 1)] = mine(8)
    dist.all_gather_into_tensor(out, out[8 * R : 8 * (R + 1)])
    return out


def refused(way: Callable[[], Any]) -> torch.Tensor:
    """The words of the error."""
    try:
        way()
    except (RuntimeError, ValueError) as error:
        return torch.tensor(list(f"{type(error).__name__}: {error}".encode()))
    raise AssertionError("nothing was refused")


def gathered() -> list[torch.Tensor]:
    out = rows() if R == 0 else None
    dist.gather(mine(8), out)
    return out or []


def counts() -> tuple[list[int], list[int]]:
    """Rank 0 gets one more from rank 1, which gets one less of itself."""
    if N == 1:
        return [1], [1]
    given = {0: [1] * N, 1: [2, 0, *[1] * (N - 2)]}.get(R, [1] * N)
    taken = {0: [1, 2, *[1] * (N - 2)], 1: [1, 0, *[1] * (N - 2)]}.get(R, [1] * N)
    return taken, given


def sent(send: Callable[..., Any], recv: Callable[..., Any]) -> torch.Tensor:
    x = mine(8)
    if R == 0:
        send(x, 1)
    elif R == 1:
        recv(x, 0)
    return x


def exchanged() -> torch.Tensor:
    out = torch.zeros(3)
    here, there = dist.P2POp(dist.isend, mine(3), (R + 1) % N), dist.P2POp(dist.irecv, out, (R - 1) % N)
    for work in dist.batch_isend_irecv([here, there]):
        work.wait()
    return out


def objects() -> list[torch.Tensor]:
    told: list[Any] = [None] * N
    dist.all_gather_object(told, {"rank": R})
    return [torch.tensor([one["rank"] for one in told])]


def differentiable() -> torch.Tensor:
    x = mine(4).requires_grad_()
    differentiable_all_reduce(x * x).sum().backward()
    return x.grad


def net() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))


def ddp() -> list[torch.Tensor]:
    model = DistributedDataParallel(net(), bucket_cap_mb=0.001)
    for _ in range(3):
        model(mine(4, 16)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def fsdp() -> list[torch.Tensor]:
    model = net()
    fully_shard(model[0])
    fully_shard(model)
    model(mine(4, 16)).sum().backward()
    return [parameter.grad.full_tensor() for parameter in model.parameters()]


def main() -> None:
    found = {}
    for name, way in CALLS.items():
        METHODS.clear()
        result = [one.tolist() for one in tensors(way())]
        methods = sorted(set(METHODS))
        told: list[Any] = [None] * N
        dist.all_gather_object(told, result)
        found[name] = told, methods
    groups = (None, PAIR, TWIN, MESH.get_group())
    names = [dist.get_backend(None), dist.group.WORLD.name()]
    names += [(dist.get_backend(one), dist.get_process_group_ranks(one)) for one in groups]
    dist.barrier()
    dist.destroy_process_group()
    names.append(dist.is_initialized())
    again = {
        "init_method": f"file://{FILE}.again",
        "rank": R,
        "world_size": N,
    }  # gloo cannot use a store twice
    init_process_group("overlayccl" if MODE == "named" else "gloo", **again)
    names.append(issued([8, 4, 8])[1].tolist())
    last = dist.all_reduce(mine(8), async_op=True)
    dist.destroy_process_group()
    names.append(last.is_completed())
    if R == 0:
        with open(FILE, "w") as file:
            json.dump(
                {"calls": found, "names": names, "made": getattr(PASSAGE, "made", {}) if MODE else {}}, file
            )


main()
