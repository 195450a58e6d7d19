"""One training step of a tensor-parallel model, cut into segments at its sums over ranks.

Sites (Megatron-LM, section 3): `exit` sums the ranks' additions to the residual stream in the forward pass; `entry`
sums the gradients of a sublayer's input in the backward pass. Ports of both: partial, total [m, sublayer]. If
several parts of a sublayer read the same norm (a parallel block), each gives partial [m, sublayer, part], and one
total is of all parts.

A stretch of the model between two entry sites is one autograd graph: a sublayer, its sums (their backward is the
identity), and the norm in front of the next sublayer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch.nn import functional

from overlayccl_core.step.segment import StepSegment, Value
from overlayccl_core.training.pieces import Batch, Module
from overlayccl_core.training.segments import Tensor, backward, share_of_mean

Values = Mapping[Value, Tensor]
Outputs = tuple[Tensor, ...]
Function = Callable[[Tensor], Tensor]
Later = list[Callable[[], None]]  # each adds a deferred gradient to its weight


class Sublayers(Protocol):
    """A model of sublayers: the parts of each read the norm of a residual stream x and add to x.

    x, normed and partial have the shape of the Problem's ports. A partial sum's total over ranks is what one rank
    with the whole model adds.
    """

    sublayers: int
    parts: int  # of each
    leaves_work: bool  # whether gradients of weights reading a sublayer's input are computed later
    read_by: Callable[[Tensor, Tensor], Tensor]  # multiplies a sublayer's input by such a weight

    def enter(self, batch: Batch) -> Tensor:
        """Return the residual stream in front of the first sublayer, the same on every rank."""

    def normed(self, sublayer: int, x: Tensor) -> Tensor:
        """Return a sublayer's input from the residual stream, the same on every rank."""

    def partial(self, sublayer: int, h: Tensor, part: int) -> Tensor:
        """Return this rank's share of the output of a sublayer's part."""

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss of the last sublayer's output, the same on every rank."""


class _Added(torch.autograd.Function):  # type: ignore[misc]
    """Add a total over ranks to the residual stream; the gradient goes to each partial sum (Megatron's g)."""

    @staticmethod
    def forward(_context: Any, x: Tensor, total: Tensor, *_partials: Tensor) -> Tensor:
        return x + total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        _x, _total, *partials = context.needs_input_grad
        return gradient, None, *(gradient for _ in partials)


class _Deferring(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, later: Later) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.later = weight, later
        return functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        [x], weight = ctx.saved_tensors, ctx.weight
        rows = gradient.flatten(0, -2)
        ctx.later.append(partial(_add_gradient, weight, rows, x.flatten(0, -2)))
        return torch.mm(rows, weight).view_as(x), None, None


def deferring(later: Later, x: Tensor, weight: Tensor) -> Tensor:
    """Return `functional.linear(x, weight)`, the weight's gradient deferred: [..., I], [O, I] -> [..., O].

    It can be computed during a sum over ranks (Megatron-LM).
    Its backward returns the gradient of x; a function appended to `later` adds the weight's to `weight.grad`.
    """
    return _Deferring.apply(x, weight, later)


def _add_gradient(weight: Tensor, gradient: Tensor, x: Tensor) -> None:
    with torch.no_grad():
        of_weight = torch.mm(gradient.t(), x)
    weight.grad = of_weight if weight.grad is None else weight.grad.add_(of_weight)


class _Stretch:
    """The model from the entry of one sublayer to the entry of the next, under autograd on detached inputs."""

    def __init__(self, pieces: Sublayers, sublayer: int, x: Tensor, h: Tensor) -> None:
        self.x = x.detach().requires_grad_()
        self.later: Later = []  # gradients of weights, once the backward is over
        if pieces.leaves_work:
            pieces.read_by = partial(deferring, self.later)
        self.inputs = [h.detach().requires_grad_() for _ in range(pieces.parts)]
        with torch.enable_grad():
            self._partials = [pieces.partial(sublayer, one, part) for part, one in enumerate(self.inputs)]

    @property
    def partials(self) -> Outputs:
        """This rank's addition of each part to the residual stream, detached."""
        return tuple(one.detach() for one in self._partials)

    def residual(self, total: Tensor) -> Tensor:
        """Return the residual stream behind the sublayer, once only: the graph needs no values of partial sums."""
        partials, self._partials = self._partials, []
        return _Added.apply(self.x, total, *partials)

    def gradients(self, outputs: Outputs, cotangents: Outputs) -> tuple[Tensor, Outputs]:
        """Return gradients (of the residual stream, this rank's share of each part's input); once only."""
        backward(outputs, cotangents)
        return self.x.grad, tuple(one.grad for one in self.inputs)


class Summing(Module):
    """A rank's share of the model as one autograd graph; `connect` sets the sums over ranks."""

    def connect(self, enter: Function, leave: Function, later: Later | None) -> None:
        """Set the sums over ranks in front of a sublayer (enter) and behind it (leave).

        Args:
            later: Takes the deferred gradients of weights reading a sublayer's input (None: not deferred).
        """
        self.enter, self.leave = enter, leave
        if later is not None:
            self.pieces.read_by = partial(deferring, later)

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss."""
        pieces = self.pieces
        x = pieces.enter(batch)
        for layer in range(pieces.sublayers):
            h = self.enter(pieces.normed(layer, x))
            first, *others = (pieces.partial(layer, h, part) for part in range(pieces.parts))
            x = x + self.leave(sum(others, first))
        return pieces.loss(x, batch)


class TensorParallelStep:
    """Segments of one step over microbatches; gradients end up in the parameters."""

    def __init__(self, pieces: Sublayers, batches: Sequence[Batch]) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, Tensor] = {}
        self._stretches: dict[tuple[int, int], _Stretch] = {}
        # residual stream and its norm in front of a sublayer
        self._entered: dict[tuple[int, int], Outputs] = {}
        self._later: dict[tuple[int, int], Later] = {}
        self._residual: dict[int, Tensor] = {}  # cotangent of the residual stream

    def segments(self) -> Iterator[StepSegment]:
        """Yield forward and backward of every sublayer, and the loss of every microbatch."""
        last = self.pieces.sublayers - 1
        for m in range(len(self.batches)):
            for layer in range(self.pieces.sublayers):
                yield StepSegment(
                    name=("forward", m, layer),
                    needs=(_exit(m, layer - 1),) if layer else (),
                    gives=self._partials("exit", m, layer),
                    work=partial(self._forward, m, layer),
                )
                yield StepSegment(
                    name=("backward", m, layer),
                    needs=(_entry(m, layer),),
                    gives=self._partials("entry", m, layer - 1) if layer else (),
                    after=(("loss", m),) if layer == last else (),
                    work=partial(self._backward, m, layer),
                )
                if self.pieces.leaves_work:
                    yield StepSegment(
                        name=("weights", m, layer),
                        after=(("loss", m) if layer == last else ("backward", m, layer + 1),),
                        work=partial(self._weights, m, layer),
                        left_over=True,
                    )
            yield StepSegment(
                name=("loss", m),
                needs=(_exit(m, last),),
                gives=self._partials("entry", m, last),
                work=partial(self._loss, m),
            )

    def _forward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        with torch.enable_grad():
            if layer:
                x = self._stretches[m, layer - 1].residual(v[_exit(m, layer - 1)])
            else:
                x = self.pieces.enter(self.batches[m])
            h = self.pieces.normed(layer, x)
        self._entered[m, layer] = x, h
        stretch = self._stretches[m, layer] = _Stretch(self.pieces, layer, x, h)
        return dict(zip(self._partials("exit", m, layer), stretch.partials, strict=True))

    def _loss(self, m: int, v: Values) -> dict[Value, Tensor]:
        last = self.pieces.sublayers - 1
        stretch = self._stretches.pop((m, last))
        with torch.enable_grad():
            x = stretch.residual(v[_exit(m, last)])
            loss = self.pieces.loss(x, self.batches[m])
        self.losses[m] = loss.detach()
        return self._passed_on(m, last, stretch, (loss,), (share_of_mean(loss, len(self.batches)),))

    def _backward(self, m: int, layer: int, v: Values) -> dict[Value, Tensor]:
        outputs = self._entered.pop((m, layer))
        cotangents = self._residual.pop(m), v[_entry(m, layer)]
        if layer:
            stretch = self._stretches.pop((m, layer - 1))
            return self._passed_on(m, layer - 1, stretch, outputs, cotangents)
        backward(outputs, cotangents)
        return {}

    def _passed_on(
        self, m: int, layer: int, stretch: _Stretch, outputs: Outputs, cotangents: Outputs
    ) -> dict[Value, Tensor]:
        """Run a stretch's backward; return its values for the entry site in front of it."""
        self._residual[m], gradients = stretch.gradients(outputs, cotangents)
        self._later[m, layer] = stretch.later
        return dict(zip(self._partials("entry", m, layer), gradients, strict=True))

    def _weights(self, m: int, layer: int, _v: Values) -> dict[Value, Tensor]:
        """Compute the deferred gradients of weights reading a sublayer's input."""
        for one in self._later.pop((m, layer)):
            one()
        return {}

    def _partials(self, site: str, m: int, layer: int) -> tuple[Value, ...]:
        """The ports of all parts of a sublayer."""
        if self.pieces.parts == 1:
            return ((site, ("partial", m, layer)),)
        return tuple((site, ("partial", m, layer, part)) for part in range(self.pieces.parts))


def _exit(m: int, layer: int) -> Value:
    return "exit", ("total", m, layer)


def _entry(m: int, layer: int) -> Value:
    return "entry", ("total", m, layer)
