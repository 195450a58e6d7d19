"""One training step of a data-parallel model: whole microbatches, and the mean of every gradient over ranks.

Site `gradients`, ports gradient, mean [i]: tensor i of the model's parameters is there once the last microbatch's
backward has passed the sublayer that holds it, so a Program that reads gradients as they come overlaps its
collectives with the rest of the backward pass.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch

from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Name, Recorded, StepSegment, Tensor, Value

Values = Mapping[Value, Tensor]


class DataParallelStep:
    """Segments of one step over microbatches of tokens int64[B, S + 1]; means end up as the parameters' gradients."""

    def __init__(self, pieces: Pieces, microbatches: Sequence[Tensor]) -> None:
        self.pieces = pieces
        self.tokens = microbatches
        self.losses: dict[int, float] = {}
        self._recorded: dict[int, Recorded] = {}
        self._cotangent: Tensor = None
        self._names = list(pieces.parameters)
        self._held_by = {name: k for k in range(pieces.sublayers) for name in pieces.names_of(k)}

    def segments(self) -> Iterator[StepSegment]:
        """Forward and loss of every microbatch, its backward sublayer by sublayer, gradients, their means."""
        before: tuple[Name, ...] = ()
        for m in range(len(self.tokens)):
            yield StepSegment(name=("forward", m), after=before, work=lambda v, m=m: self._forward(m))
            before = (("forward", m),)
            for place in reversed(range(-1, self.pieces.sublayers)):  # -1: the embedding
                name = ("backward", m, place)
                yield StepSegment(name=name, after=before, work=lambda v, place=place: self._backward(place))
                before = (name,)
        last = len(self.tokens) - 1
        for i, name in enumerate(self._names):
            place = -1 if name == "embedding" else self._held_by.get(name)
            yield StepSegment(
                name=("gradient", i),
                gives=(("gradients", ("gradient", i)),),
                after=(("forward", last) if place is None else ("backward", last, place),),
                work=lambda v, i=i, name=name: {
                    ("gradients", ("gradient", i)): self.pieces.parameters[name].grad
                },
            )
        yield StepSegment(
            name=("means",),
            needs=tuple(("gradients", ("mean", i)) for i in range(len(self._names))),
            work=self._take,
        )

    def _forward(self, m: int) -> dict[Value, Tensor]:
        tokens, count = self.tokens[m], len(self.tokens)
        recorded = self._recorded[-1] = Recorded(lambda: self.pieces.embed(tokens[:, :-1]))
        for k in range(self.pieces.sublayers):
            recorded = self._recorded[k] = Recorded(
                lambda x, k=k: x + self.pieces.partial(k, self.pieces.normed(k, x)), recorded.values[0]
            )
        loss = Recorded(lambda x: self.pieces.loss(x, tokens[:, 1:]) / count, recorded.values[0])
        self.losses[m] = float(loss.values[0]) * count
        [self._cotangent] = loss.backward(torch.tensor(1.0))
        return {}

    def _backward(self, place: int) -> dict[Value, Tensor]:
        gradients = self._recorded.pop(place).backward(self._cotangent)
        if gradients:
            [self._cotangent] = gradients
        return {}

    def _take(self, v: Values) -> dict[Value, Tensor]:
        for i, name in enumerate(self._names):
            parameter = self.pieces.parameters[name]
            parameter.grad = v["gradients", ("mean", i)].view_as(parameter)
        return {}
