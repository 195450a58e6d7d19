"""One training step of a context-parallel model: each rank has some positions of every text, and the whole model.

Contiguous pieces: rank r of N has positions r * S / N and on. Attention alone looks at other ranks' positions.
Sites of layer l and microbatch m, in one of three cuts, and one more:

  gather_{l}_{m}, gather_{l}_{m}_backward        keys and values to whole ones, and their gradients to shards: ports
                                                 of ring_kv (Grattafiori et al. 2024, section 3.3.2)
  hop{h}_{l}_{m}, hop{h}_{l}_{m}_backward        keys and values from each rank to the next, for h = 1 to N - 1, and
                                                 their gradients back, summed on the way: ports of all_to_next
  attention_{l}_{m}, attention_{l}_{m}_backward  queries, keys, values to what attention gives: ports of attention
  gradients                                      of all parameters, one after another in the backward pass: ports of
                                                 grad_ar

A stretch is what a rank computes between two of these: from one layer's attention to the next one's. It is one
autograd graph on detached inputs. A rank's loss is the mean over its own positions; the mean over ranks is the
model's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import torch

from overlayccl_core.program.nodes import Port
from overlayccl_core.step.segment import Name, StepSegment, Value
from overlayccl_core.training.pieces import Batch, Module
from overlayccl_core.training.segments import Recorded, Tensor, averaging, share_of_mean
from overlayccl_core.workloads.spreads.context import attention_site, gather_site, hop_site, of_backward

Values = Mapping[Value, Tensor]
Tensors = tuple[Tensor, ...]
Ends = tuple[tuple[Port, ...], tuple[Port, ...]]
"""Ports of a site: what it is given, what it makes."""
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class Attending(Protocol):
    """A model of blocks, each with attention; a rank has its own positions of each text.

    x: [B, S / N, D] of B texts. Queries, keys and values of H heads: [B, H, S / N, D / H]; keys and values of all
    positions have S in place of S / N.
    """

    parameters: dict[str, Tensor]
    blocks: int
    rank: int
    ranks: int

    def own(self, batch: Batch) -> Batch:
        """Return this rank's positions of a batch."""

    def enter(self, batch: Batch) -> Tensor:
        """Return the input of the first block."""

    def opened(self, k: int, x: Tensor) -> tuple[Tensor, ...]:
        """Run block k up to its attention: x, queries, keys, values."""

    def attended(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return attention to the keys of all positions, as far as a query may look.

        The queries are of own positions, or of all; any heads will do.
        """

    def closed(self, k: int, x: Tensor, mixed: Tensor) -> Tensor:
        """Return the output of block k from its attention's."""

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss over own positions."""

    def stretch_of(self, parameter: str) -> int:
        """Return the stretch with a parameter: 0 in front of the first attention, `blocks` behind the last."""


class SpreadAttention(Module):
    """The model on a rank's positions as one autograd graph; `connect` sets what attention exchanges."""

    def connect(self, exchange: Callable[[Attend, Tensor, Tensor, Tensor], Tensor]) -> None:
        """Set the attention over ranks.

        Args:
            exchange: Given the attention of one rank (`Attending.attended`) and queries, keys and values of own
                positions, it returns what attention gives there: thrice [B, H, S / N, D] -> [B, H, S / N, D]. Its
                backward gives the gradients of the sum of the ranks' losses.
        """
        self.exchange = exchange

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss over own positions of whole texts."""
        pieces, own = self.pieces, self.pieces.own(batch)
        x = pieces.enter(own)
        for k in range(pieces.blocks):
            x, q, keys, values = pieces.opened(k, x)
            x = pieces.closed(k, x, self.exchange(pieces.attended, q, keys, values))
        return pieces.loss(x, own)


class ContextParallelStep(ABC):
    """Segments of one step over microbatches; gradients, as means over ranks, end up in the parameters."""

    SITE: Callable[[int, int], str]  # of a microbatch and a layer
    FORWARD: Ends
    BACKWARD: Ends

    def __init__(self, pieces: Attending, batches: Sequence[Batch]) -> None:
        self.pieces = pieces
        self.batches = [pieces.own(batch) for batch in batches]
        self.losses: dict[int, Tensor] = {}
        self._stretches: dict[tuple[int, int], Recorded] = {}
        self._residual: dict[int, Tensor] = {}  # stream between two stretches, then its cotangent

    # ------------------------------------------------------------------------------------------ what a cut is
    @abstractmethod
    def _given(self, m: int, k: int, heads: Tensors) -> Tensors:
        """Return the values of the forward site from queries, keys and values."""

    @abstractmethod
    def _arrived(self, m: int, k: int, made: Tensors) -> Tensors:
        """Return the inputs of the stretch behind layer k from what the forward site made."""

    @abstractmethod
    def _mixed(self, *arrived: Tensor) -> Tensor:
        """Return what attention gives, from these inputs."""

    @abstractmethod
    def _given_back(self, m: int, k: int, gradients: Tensors) -> Tensors:
        """Return the values of the backward site from the gradients of these inputs."""

    @abstractmethod
    def _arrived_back(self, m: int, k: int, made: Tensors) -> Tensors:
        """Return the cotangents of queries, keys and values from what the backward site made."""

    def _under_way(self, m: int, k: int) -> Iterator[StepSegment]:
        """Yield the segments between the sites of layer k, if it has several, in the forward pass."""
        yield from ()

    def _under_way_back(self, m: int, k: int) -> Iterator[StepSegment]:
        """Yield the segments between the sites of layer k in the backward pass."""
        yield from ()

    # -------------------------------------------------------------------------------------------- the same in all
    def segments(self) -> Iterator[StepSegment]:
        """Yield forward and backward of every stretch and microbatch, the gradients and their means.

        The forward of the last stretch gives the loss, and its backward runs with it.
        """
        last = self.pieces.blocks
        for m in range(len(self.batches)):
            for k in range(last + 1):
                yield StepSegment(
                    name=("forward", m, k),
                    needs=self._ports(m, k - 1, made=True) if k else (),
                    gives=self._ports(m, k) if k < last else self._ports(m, k - 1, back=True),
                    work=partial(self._forward, m, k),
                )
                if k < last:
                    yield from self._under_way(m, k)
            for k in range(last):
                yield from self._under_way_back(m, k)
                yield StepSegment(
                    name=("backward", m, k),
                    needs=self._ports(m, k, made=True, back=True),
                    gives=self._ports(m, k - 1, back=True) if k else (),
                    work=partial(self._backward, m, k),
                )
        averaged = [(name, x.numel()) for name, x in self.pieces.parameters.items()]
        yield from averaging(self.pieces.parameters, averaged, self._complete_after)

    def _ports(self, m: int, k: int, *, made: bool = False, back: bool = False) -> tuple[Value, ...]:
        """What the site of layer k is given, or has made, in the backward pass or the forward."""
        site = self.SITE(m, k)
        if back:
            return tuple((of_backward(site), port) for port in self.BACKWARD[made])
        return tuple((site, port) for port in self.FORWARD[made])

    def _complete_after(self, parameter: str | None) -> tuple[Name, ...]:
        """The last segments adding to a parameter's gradient."""
        assert parameter is not None
        k = self.pieces.stretch_of(parameter)
        return tuple(
            ("backward" if k < self.pieces.blocks else "forward", m, k) for m in range(len(self.batches))
        )

    def _forward(self, m: int, k: int, v: Values) -> dict[Value, Tensor]:
        inputs = (self._residual.pop(m), *self._arrived(m, k - 1, tuple(v.values()))) if k else ()
        stretch = self._stretches[m, k] = Recorded(partial(self._computed, m, k), *inputs)
        if k == self.pieces.blocks:
            [self.losses[m]] = stretch.values
            return self._passed_back(m, k, share_of_mean(self.losses[m], len(self.batches)))
        self._residual[m], *heads = stretch.values
        return dict(zip(self._ports(m, k), self._given(m, k, tuple(heads)), strict=True))

    def _computed(self, m: int, k: int, *inputs: Tensor) -> Tensor | Tensors:
        """Stretch k, of the residual stream and what arrived; the first is of the batch alone."""
        if inputs:
            x, *arrived = inputs
            x = self.pieces.closed(k - 1, x, self._mixed(*arrived))
        else:
            x = self.pieces.enter(self.batches[m])
        return self.pieces.opened(k, x) if k < self.pieces.blocks else self.pieces.loss(x, self.batches[m])

    def _backward(self, m: int, k: int, v: Values) -> dict[Value, Tensor]:
        heads = self._arrived_back(m, k, tuple(v.values()))
        return self._passed_back(m, k, self._residual.pop(m), *heads)

    def _passed_back(self, m: int, k: int, *cotangents: Tensor) -> dict[Value, Tensor]:
        """Run a stretch's backward; return the values of the backward site in front of it."""
        gradients = self._stretches.pop((m, k)).backward(*cotangents)
        if not k:
            return {}
        self._residual[m], *arrived = gradients
        given = self._given_back(m, k - 1, tuple(arrived))
        return dict(zip(self._ports(m, k - 1, back=True), given, strict=True))


class GatheredKeysStep(ContextParallelStep):
    """Cut at the gathers of keys and values: a rank's attention is in its stretch, and queries pass by."""

    SITE = staticmethod(gather_site)
    FORWARD: Ends = (("shard", 0), ("shard", 1)), (("full", 0), ("full", 1))
    BACKWARD: Ends = (("d_full", 0), ("d_full", 1)), (("d_shard", 0), ("d_shard", 1))

    def __init__(self, pieces: Attending, batches: Sequence[Batch]) -> None:
        super().__init__(pieces, batches)
        self._queries: dict[int, Tensor] = {}  # or their cotangent

    def _given(self, m: int, k: int, heads: Tensors) -> Tensors:
        self._queries[m], keys, values = heads
        return keys.flatten(0, 1), values.flatten(0, 1)

    def _arrived(self, m: int, k: int, made: Tensors) -> Tensors:
        q = self._queries.pop(m)
        keys, values = (one.view(*q.shape[:2], *one.shape[1:]) for one in made)
        return q, keys, values

    def _mixed(self, *arrived: Tensor) -> Tensor:
        return self.pieces.attended(*arrived)

    def _given_back(self, m: int, k: int, gradients: Tensors) -> Tensors:
        return self._given(m, k, gradients)

    def _arrived_back(self, m: int, k: int, made: Tensors) -> Tensors:
        q = self._queries.pop(m)
        return q, *(one.view_as(q) for one in made)


class RingStep(GatheredKeysStep):
    """The same, but keys and values arrive one rank's after another, each handed on by the rank before.

    Attention begins when all are there. After hop h rank r has those of rank r - h. In the backward pass the
    gradients of what came with hop h go back the same way, and meet those of the rank that handed it on.
    """

    FORWARD = (("given",),), (("received",),)
    BACKWARD = (("d_received",),), (("d_given",),)

    def __init__(self, pieces: Attending, batches: Sequence[Batch]) -> None:
        super().__init__(pieces, batches)
        self._blocks: dict[
            tuple[int, int], list[Tensor]
        ] = {}  # by the hops that they took; or their gradients

    def _ports(self, m: int, k: int, *, made: bool = False, back: bool = False) -> tuple[Value, ...]:
        """What the first hop is given, what the last one has made; in the backward pass the other way round."""
        return (self._port(m, k, self.pieces.ranks - 1 if made is not back else 1, made=made, back=back),)

    def _port(self, m: int, k: int, hop: int, *, made: bool, back: bool) -> Value:
        site = hop_site(m, k, hop)
        [port] = (self.BACKWARD if back else self.FORWARD)[made]
        return (of_backward(site) if back else site, port)

    def _under_way(self, m: int, k: int) -> Iterator[StepSegment]:
        for hop in range(1, self.pieces.ranks - 1):
            yield StepSegment(
                name=("handed on", m, k, hop),
                needs=(self._port(m, k, hop, made=True, back=False),),
                gives=(self._port(m, k, hop + 1, made=False, back=False),),
                work=partial(self._handed_on, m, k, hop),
            )

    def _under_way_back(self, m: int, k: int) -> Iterator[StepSegment]:
        for hop in range(1, self.pieces.ranks - 1):
            yield StepSegment(
                name=("handed back", m, k, hop),
                needs=(self._port(m, k, hop + 1, made=True, back=True),),
                gives=(self._port(m, k, hop, made=False, back=True),),
                work=partial(self._handed_back, m, k, hop),
            )

    def _handed_on(self, m: int, k: int, hop: int, v: Values) -> dict[Value, Tensor]:
        [came] = v.values()
        self._blocks[m, k].append(came)
        return {self._port(m, k, hop + 1, made=False, back=False): came}

    def _handed_back(self, m: int, k: int, hop: int, v: Values) -> dict[Value, Tensor]:
        [of_the_next] = v.values()
        return {self._port(m, k, hop, made=False, back=True): of_the_next + self._blocks[m, k][hop]}

    def _given(self, m: int, k: int, heads: Tensors) -> Tensors:
        mine = torch.cat([one.flatten() for one in super()._given(m, k, heads)])
        self._blocks[m, k] = [mine]
        return (mine,)

    def _arrived(self, m: int, k: int, made: Tensors) -> Tensors:
        blocks = [*self._blocks.pop((m, k)), *made]
        shape = self._queries[m].shape  # [B, H, S / N, D]
        of_rank = [blocks[hops].view(2, *shape) for hops in self._hops()]
        q = self._queries.pop(m)
        return q, *torch.cat(of_rank, 3).unbind()

    def _hops(self) -> list[int]:
        """By rank: after how many hops its keys are here."""
        return [(self.pieces.rank - other) % self.pieces.ranks for other in range(self.pieces.ranks)]

    def _given_back(self, m: int, k: int, gradients: Tensors) -> Tensors:
        self._queries[m], *of_keys = gradients
        of_rank = torch.stack(of_keys).chunk(self.pieces.ranks, 3)
        by_hops = dict(zip(self._hops(), of_rank, strict=True))
        self._blocks[m, k] = [by_hops[hops].flatten() for hops in range(self.pieces.ranks)]
        return (self._blocks[m, k][-1],)

    def _arrived_back(self, m: int, k: int, made: Tensors) -> Tensors:
        [of_the_next] = made
        q = self._queries.pop(m)
        return q, *(of_the_next + self._blocks.pop((m, k))[0]).view(2, *q.shape).unbind()


class AttentionStep(ContextParallelStep):
    """Cut around attention: a Program does all of it, and its backward from what the forward had and made."""

    SITE = staticmethod(attention_site)
    FORWARD = (("q",), ("k",), ("v",)), (("out",), ("lse",))
    BACKWARD = (("q",), ("k",), ("v",), ("out",), ("lse",), ("d_out",)), (("d_q",), ("d_k",), ("d_v",))

    def __init__(self, pieces: Attending, batches: Sequence[Batch]) -> None:
        super().__init__(pieces, batches)
        self._kept: dict[tuple[int, int], Tensors] = {}  # for the backward site
        self._shape: Sequence[int] = ()  # of queries

    def _given(self, m: int, k: int, heads: Tensors) -> Tensors:
        self._shape = heads[0].shape
        self._kept[m, k] = tuple(one.flatten(0, 1) for one in heads)
        return self._kept[m, k]

    def _arrived(self, m: int, k: int, made: Tensors) -> Tensors:
        self._kept[m, k] += made
        out, _ = made
        return (out.view(self._shape),)

    def _mixed(self, *arrived: Tensor) -> Tensor:
        [out] = arrived
        return out

    def _given_back(self, m: int, k: int, gradients: Tensors) -> Tensors:
        [d_out] = gradients
        return *self._kept.pop((m, k)), d_out.flatten(0, 1)

    def _arrived_back(self, m: int, k: int, made: Tensors) -> Tensors:
        return tuple(one.view(self._shape) for one in made)
