"""torch's own ways to train, as steps without optimizer, to race modules against (`Rank.framework_step`).

measuring/frameworks.py has their settings; experts.py and context.py have the steps of these two.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from overlayccl_core.backends.torchdist.context import context_parallel
from overlayccl_core.backends.torchdist.data_parallel import FrameworkStep, average, passes, replicated
from overlayccl_core.backends.torchdist.experts import expert_parallel
from overlayccl_core.backends.torchdist.groups import group_of
from overlayccl_core.measuring.frameworks import Framework


def sharded(
    model: torch.nn.Module,
    device: str,
    *,
    kept: bool = False,
    joined: bool = False,
    ahead: bool = False,
    once: bool = False,
    last_kept: bool = False,
) -> FrameworkStep:
    """Step with FSDP (`fully_shard`): gather each of `model.units` in both passes, reduce-scatter its gradients.

    All other parameters stay whole on every rank; their gradients are averaged in one buffer.

    Args:
        kept: Units stay whole from the forward to the backward pass (`reshard_after_forward=False`).
        joined: One call gathers all units.
        ahead: Gather the next unit while one runs.
        once: Reduce-scatter gradients only after the last batch, and keep kept units until then.
        last_kept: The last unit stays whole, as it is needed again at once (torchtitan's setting).
    """
    units = list(model.units)
    mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
    of_units = {parameter for unit in units for parameter in unit.parameters()}
    whole = [parameter for parameter in model.parameters() if parameter not in of_units]
    for one in [units] if joined else units:
        fully_shard(one, mesh=mesh, reshard_after_forward=not (kept or (last_kept and one is units[-1])))
    fully_shard(model, mesh=mesh, ignored_params=set(whole))
    if ahead:
        _gather_ahead(units)

    def step(batches: Sequence[Any]) -> torch.Tensor:
        losses = []
        for m, batch in enumerate(batches):
            if once:
                last = m == len(batches) - 1
                model.set_requires_gradient_sync(last)
                model.set_reshard_after_backward(last or not kept)
            losses.append(passes(model, batch, len(batches)))
        average(whole)
        return torch.stack(losses)

    return step


def _gather_ahead(units: Sequence[Any]) -> None:
    """Let each unit gather the next one of the pass; without streams the call itself must not wait."""
    for before, after in pairwise(units):
        before.set_modules_to_forward_prefetch([after])
        after.set_modules_to_backward_prefetch([before])
    for unit in units:
        unit._set_unshard_async_op(True)


def pipelined(stage: torch.nn.Module, device: str, *, schedule: str) -> FrameworkStep:
    """Step with torch.distributed.pipelining: `stage` of rank r and that of rank r + N/2 are a model.

    With several pipelines, DDP averages the gradients of a stage over its ranks in the last backward. Input and
    output are given to torch: otherwise it runs a step to find their shapes, and DDP mistakes that for a real one.
    """
    rank, pipelines = dist.get_rank(), dist.get_world_size() // 2
    mine = group_of(rank, [(r, r + pipelines) for r in range(pipelines)])
    wrapped = stage
    if pipelines > 1:
        alike = group_of(rank, [tuple(range(pipelines)), tuple(range(pipelines, 2 * pipelines))])
        wrapped = DistributedDataParallel(stage, process_group=alike, gradient_as_bucket_view=True)
    is_first = rank < pipelines
    schedules: dict[int, Any] = {}

    def made(batches: Sequence[Any]) -> Any:
        between = torch.empty(stage.handed_over(batches[0]), device=device, requires_grad=True)
        place = pipelining.PipelineStage(
            wrapped,
            rank // pipelines,
            2,
            torch.device(device),
            input_args=batches[0] if is_first else between,
            output_args=between,
            group=mine,
        )
        return getattr(pipelining, schedule)(place, len(batches), loss_fn=stage.loss)

    def step(batches: Sequence[Any]) -> torch.Tensor | None:
        pipeline = schedules.get(len(batches)) or schedules.setdefault(len(batches), made(batches))
        whole = torch.cat(list(batches))
        if is_first:
            pipeline.step(whole)
            return None
        losses: list[torch.Tensor] = []
        pipeline.step(target=whole, losses=losses, return_outputs=False)
        return torch.stack(losses).detach()

    return step


class _Entered(torch.autograd.Function):  # type: ignore[misc]
    """f of Megatron-LM (Shoeybi et al. 2019, section 3): the identity.

    Its backward sums over ranks and meanwhile does the work of `later`.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, later: list[Callable[[], None]]) -> torch.Tensor:
        ctx.later = later
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        work = dist.all_reduce(gradient, async_op=True)
        while ctx.later:
            ctx.later.pop()()
        work.wait()
        return gradient, None


class _Left(torch.autograd.Function):  # type: ignore[misc]
    """g: a sum over ranks, in place, of both parts of a parallel block; the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _connect(model: torch.nn.Module, *, hidden: bool) -> None:
    """Give a model (`training/tensor_parallel.py`, Summing) its sums in front of each sublayer and behind it.

    hidden: sums of input gradients are in flight while the gradients of the weights behind them are computed.
    """
    later: list[Callable[[], None]] = []
    model.connect(
        enter=lambda x: _Entered.apply(x, later), leave=_Left.apply, later=later if hidden else None
    )


def tensor_parallel(model: torch.nn.Module, _device: str, *, hidden: bool) -> FrameworkStep:
    """Step with autograd functions that sum over ranks in front of each sublayer and behind it."""
    _connect(model, hidden=hidden)

    def step(batches: Sequence[Any]) -> torch.Tensor:
        return torch.stack([passes(model, batch, len(batches)) for batch in batches])

    return step


STEPS: dict[Framework, Callable[..., FrameworkStep]] = {
    Framework.DDP: replicated,
    Framework.FSDP: sharded,
    Framework.PIPELINING: pipelined,
    Framework.TENSOR: tensor_parallel,
    Framework.EXPERTS: expert_parallel,
    Framework.CONTEXT: context_parallel,
}


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows of a tensor sharded by `fully_shard`, any other tensor unchanged."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
