"""One training step of a tensor-parallel model, cut into segments at its sums over ranks.

Sites (Megatron-LM, section 3): `exit` sums what the ranks add to the residual stream in the forward pass; `entry`
sums the gradients of a sublayer's input in the backward pass. Ports of both: partial, total [m, sublayer].

A stretch of the model between two entry sites is one piece of autograd: a sublayer, its sum (whose backward is the
identity), and the norm in front of the next sublayer.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import torch

from overlayccl_core.training.pieces import Batch
from overlayccl_core.training.segments import StepSegment, Tensor, Value, backward

Values = Mapping[Value, Tensor]
Outputs = tuple[Tensor, ...]


class Sublayers(Protocol):
    """A model whose sublayers each add to a residual stream x what they make of its norm.

    x, normed and partial have the shape of the Problem's ports. A partial sum's total over ranks is what one rank
    with the whole model adds.
    """

    sublayers: int

    def enter(self, batch: Batch) -> Tensor:
        """The residual stream in front of the first sublayer, the same on every rank."""

    def normed(self, sublayer: int, x: Tensor) -> Tensor:
        """What a sublayer reads of the residual stream, the same on every rank."""

    def partial(self, sublayer: int, h: Tensor) -> Tensor:
        """This rank's part of what a sublayer adds."""

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """The mean loss of what comes out of the last sublayer, the same on every rank."""


class _Stretch:
    """The model from the entry of one sublayer to the entry of the next, under autograd on detached inputs."""

    def __init__(self, pieces: Sublayers, sublayer: int, x: Tensor, h: Tensor) -> None:
        self.x, self.h = x.detach().requires_grad_(), h.detach().requires_grad_()
        with torch.enable_grad():
            self._partial = pieces.partial(sublayer, self.h)

    @property
    def partial(self) -> Tensor:
        """What this rank adds to the residual stream, detached."""
        return self._partial.detach()

    def residual(self, total: Tensor) -> Tensor:
        """The residual stream behind the sublayer. Once only.

        The sum over ranks takes the partial sum's place in autograd's graph: its gradient is that of the partial
        sum (Megatron's g). No tensor is overwritten: the module may still hold the partial sum.
        """
        summed, self._partial = self._partial, None  # the graph needs no values of it: let the total go
        summed.data = total
        return self.x + summed

    def gradients(self, outputs: Outputs, cotangents: Outputs) -> tuple[Tensor, Tensor]:
        """(of the residual stream, this rank's part of that of the sublayer's input); once only."""
        backward(outputs, cotangents)
        return self.x.grad, self.h.grad


class TensorParallelStep:
    """Segments of one step over microbatches; gradients end up in the parameters."""

    def __init__(self, pieces: Sublayers, batches: Sequence[Batch]) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, float] = {}
        self._stretches: dict[tuple[int, int], _Stretch] = {}
        # residual stream and its norm in front of a sublayer
        self._entered: dict[tuple[int, int], Outputs] = {}
        self._residual: dict[int, Tensor] = {}  # cotangent of the residual stream

    def segments(self) -> Iterator[StepSegment]:
        """Forward and backward of every sublayer, the loss of every microbatch."""
        last = self.pieces.sublayers - 1
        for m in range(len(self.batches)):
            for layer in range(self.pieces.sublayers):
                yield StepSegment(
                    name=("forward", m, layer),
                    needs=(_exit("total", m, layer - 1),) if layer else (),
                    gives=(_exit("partial", m, layer),),
                    work=partial(self._forward, m, layer),
                )
                yield StepSegment(
                    name=("backward", m, layer),
                    needs=(_entry("total", m, layer),),
                    gives=(_entry("partial", m, layer - 1),) if layer else (),
                    after=(("loss", m),) if layer == last else (),
                    work=partial(self._backward, m, layer),
                )
            yield StepSegment(
                name=("loss", m),
                needs=(_exit("total", m, last),),
                gives=(_entry("partial", m, last),),
                work=partial(self._loss, m),
            )

    def _forward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        with torch.enable_grad():
            if layer:
                x = self._stretches[m, layer - 1].residual(v[_exit("total", m, layer - 1)])
            else:
                x = self.pieces.enter(self.batches[m])
            h = self.pieces.normed(layer, x)
        self._entered[m, layer] = x, h
        stretch = self._stretches[m, layer] = _Stretch(self.pieces, layer, x, h)
        return {_exit("partial", m, layer): stretch.partial}

    def _loss(self, m: int, v: Values) -> dict[Value, Tensor]:
        last = self.pieces.sublayers - 1
        stretch = self._stretches.pop((m, last))
        with torch.enable_grad():
            x = stretch.residual(v[_exit("total", m, last)])
            loss = self.pieces.loss(x, self.batches[m])
        self.losses[m] = float(loss.detach())
        return self._passed_on(m, last, stretch, (loss,), (torch.tensor(1 / len(self.batches)),))

    def _backward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        outputs = self._entered.pop((m, layer))
        cotangents = self._residual.pop(m), v[_entry("total", m, layer)]
        if layer:
            stretch = self._stretches.pop((m, layer - 1))
            return self._passed_on(m, layer - 1, stretch, outputs, cotangents)
        backward(outputs, cotangents)
        return {}

    def _passed_on(
        self, m: int, layer: int, stretch: _Stretch, outputs: Outputs, cotangents: Outputs
    ) -> dict[Value, Tensor]:
        """The backward of a stretch: what it gives to the entry site in front of it."""
        self._residual[m], partial_gradient = stretch.gradients(outputs, cotangents)
        return {_entry("partial", m, layer): partial_gradient}


def _exit(name: str, *index: int) -> Value:
    return "exit", (name, *index)


def _entry(name: str, *index: int) -> Value:
    return "entry", (name, *index)
