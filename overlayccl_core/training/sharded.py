"""One training step of a model with sharded parameters (FSDP, Zhao et al. 2023; ZeRO stage 3).

Every rank trains on data of its own. A unit has one flat parameter [rows, columns]; a rank holds its rows. Sites,
all but the last with the ports of fsdp_prefetch:

  gather     whole parameters in the forward pass
  regather   again in the backward pass: autograd holds no whole parameter between the two
  scatter    backward of `gather`: gradients of whole parameters, summed over microbatches and ranks, in shards
  gradients  of the replicated parameters: ports of grad_ar
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch.autograd.graph import saved_tensors_hooks

from overlayccl_core.step.segment import Name, StepSegment, Value
from overlayccl_core.training.pieces import Batch, Module
from overlayccl_core.training.segments import Recorded, Tensor, averaging, backward, share_of_mean

Values = Mapping[Value, Tensor]


class Units(Protocol):
    """A chain of sharded units between an entrance and a loss, both replicated on every rank."""

    parameters: dict[str, Tensor]
    units: Sequence[str]  # sharded parameters, in the order of the forward pass

    @property
    def ranks(self) -> int:
        """The number of ranks, with a shard each."""

    def enter(self, batch: Batch) -> Tensor:
        """Return the input of the first unit."""

    def unit(self, k: int, weight: Tensor, x: Tensor) -> Tensor:
        """Run unit k with its whole flat parameter."""

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss of the last unit's output."""


def _saved_without(leaf: Tensor, again: Callable[[], Tensor]) -> saved_tensors_hooks:
    """Hooks for autograd's saved tensors: of a parameter's part they save the layout, to cut it out of `again()`.

    Other tensors go to the outer hooks.
    """
    storage = leaf.untyped_storage()._cdata
    # its views are laid out as those of the leaf; some devices cannot tell how, nor can their `empty_like`
    shadow = torch.empty(leaf.shape, device="meta")
    outer = torch._C._autograd._top_saved_tensors_default_hooks(False)
    keep, give = outer or (_same, _same)

    def pack(tensor: Tensor) -> tuple[Any, ...]:
        if tensor._base is leaf:
            part = tensor._view_func_unsafe(shadow)
        elif tensor.shape == leaf.shape and tensor.untyped_storage()._cdata == storage:
            part = shadow
        else:
            return (keep(tensor),)
        return part.shape, part.stride(), part.storage_offset()

    def unpack(kept: tuple[Any, ...]) -> Tensor:
        if len(kept) == 1:
            return give(kept[0])
        shape, stride, offset = kept
        return again().as_strided(shape, stride, again().storage_offset() + offset)

    return saved_tensors_hooks(pack, unpack)


def _given(values: Values, _v: Values) -> Values:
    return values


def _same(kept: Any) -> Any:
    return kept


class _Run:
    """A unit under autograd on detached inputs; its whole parameter is freed until its backward."""

    def __init__(self, pieces: Units, k: int, weight: Tensor, x: Tensor) -> None:
        self._x = x.detach().requires_grad_()
        leaf = self._leaf = weight.detach().requires_grad_()
        with torch.enable_grad(), _saved_without(leaf, lambda: leaf.data):
            self._y = pieces.unit(k, leaf, self._x)
        leaf.data = weight.new_empty(0)  # the graph holds the leaf

    @property
    def value(self) -> Tensor:
        """The unit's output, detached."""
        return self._y.detach()

    def backward(self, weight: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the input and of the whole parameter; once only."""
        self._leaf.data = weight
        backward((self._y,), (cotangent,))
        return self._x.grad, self._leaf.grad


class ModuleChain(Module):
    """The model with a module for each unit, in `units`: the framework gathers and frees module by module."""

    def __init__(self, pieces: Any) -> None:  # Pieces with the protocol Units
        super().__init__(pieces, [name for name in pieces.parameters if name not in pieces.units])
        self.units = torch.nn.ModuleList(_Unit(self, k) for k in range(len(pieces.units)))

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss."""
        x = self.pieces.enter(batch)
        for unit in self.units:
            x = unit(x)
        return self.pieces.loss(x, batch)


class _Unit(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, chain: ModuleChain, k: int) -> None:
        super().__init__()
        self.k = k
        self.run = chain.pieces.unit
        chain.take(chain.pieces.units[k], self, "weight")

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self.k, self.weight, x)


class ShardedStep:
    """Segments of one step over microbatches; gradients, as means over ranks, end up in the parameters."""

    def __init__(self, pieces: Units, batches: Sequence[Batch]) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, Tensor] = {}
        self._replicated = [
            (name, x.numel()) for name, x in pieces.parameters.items() if name not in pieces.units
        ]
        self._entered: dict[int, Recorded] = {}
        self._runs: dict[tuple[int, int], _Run] = {}
        self._cotangents: dict[int, Tensor] = {}

    def segments(self) -> Iterator[StepSegment]:
        """Yield shards, forward and backward of every unit and microbatch, complete gradients and their means."""
        units = range(len(self.pieces.units))
        for site in ("gather", "regather"):
            shards: Values = {
                (site, ("shard", k)): self.pieces.parameters[name] for k, name in enumerate(self.pieces.units)
            }
            yield StepSegment(name=("shards", site), gives=tuple(shards), work=partial(_given, shards))
        for m in range(len(self.batches)):
            for k in units:
                yield StepSegment(
                    name=("forward", m, k),
                    needs=(("gather", ("full", m, k)),),
                    after=(("forward", m, k - 1),) if k else (),
                    work=partial(self._forward, m, k),
                )
                yield StepSegment(
                    name=("backward", m, k),
                    needs=(("regather", ("full", m, k)),),
                    gives=(("scatter", ("d_full", m, k)),),
                    after=(("backward", m, k + 1) if k < units[-1] else ("forward", m, k),),
                    work=partial(self._backward, m, k),
                )
        for k, name in enumerate(self.pieces.units):
            needs = (("scatter", ("d_shard", k)),)
            yield StepSegment(name=("shard", k), needs=needs, work=partial(self._take_shard, name))
        complete: tuple[Name, ...] = tuple(("backward", m, 0) for m in range(len(self.batches)))
        yield from averaging(self.pieces.parameters, self._replicated, lambda _: complete)

    def _forward(self, m: int, k: int, v: Values) -> dict[Value, Tensor]:
        if not k:
            self._entered[m] = Recorded(partial(self.pieces.enter, self.batches[m]))
            [x] = self._entered[m].values
        else:
            x = self._runs[m, k - 1].value
        run = self._runs[m, k] = _Run(self.pieces, k, v["gather", ("full", m, k)], x)
        if k == len(self.pieces.units) - 1:
            loss = Recorded(lambda y: self.pieces.loss(y, self.batches[m]), run.value)
            [self.losses[m]] = loss.values
            [self._cotangents[m]] = loss.backward(share_of_mean(self.losses[m], len(self.batches)))
        return {}

    def _backward(self, m: int, k: int, v: Values) -> dict[Value, Tensor]:
        run, whole = self._runs.pop((m, k)), v["regather", ("full", m, k)]
        cotangent, gradient = run.backward(whole, self._cotangents.pop(m))
        if k:
            self._cotangents[m] = cotangent
        else:
            self._entered.pop(m).backward(cotangent)
        return {("scatter", ("d_full", m, k)): gradient}

    def _take_shard(self, name: str, v: Values) -> dict[Value, Tensor]:
        """Turn the sum over ranks into their mean."""
        [total] = v.values()
        self.pieces.parameters[name].grad = total / self.pieces.ranks
        return {}
