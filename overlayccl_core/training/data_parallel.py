"""One training step of a data-parallel model: whole microbatches, and the mean of every gradient over ranks.

Site `gradients`, ports gradient, mean [i]: tensor i of the model's parameters is there once the last microbatch's
backward has passed the sublayer that holds it, so a Program that reads gradients as they come overlaps its
collectives with the rest of the backward pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch

from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Name, Recorded, StepSegment, Tensor, Value

Values = Mapping[Value, Tensor]
EMBEDDING = -1  # its place in front of the sublayers


class DataParallelStep:
    """Segments of one step over microbatches of tokens int64[B, S + 1]; means become the parameters' gradients."""

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
            yield StepSegment(name=("forward", m), after=before, work=partial(self._forward, m))
            before = (("forward", m),)
            for place in reversed(range(EMBEDDING, self.pieces.sublayers)):
                yield StepSegment(
                    name=("backward", m, place), after=before, work=partial(self._backward, place)
                )
                before = (("backward", m, place),)
        for i, name in enumerate(self._names):
            yield StepSegment(
                name=("gradient", i),
                gives=(("gradients", ("gradient", i)),),
                after=(self._complete_after(name),),
                work=partial(self._gradient, i, name),
            )
        needs = tuple(("gradients", ("mean", i)) for i in range(len(self._names)))
        yield StepSegment(name=("means",), needs=needs, work=self._take)

    def _complete_after(self, name: str) -> Name:
        """The segment of the last microbatch after which a parameter's gradient is whole."""
        last = len(self.tokens) - 1
        place = EMBEDDING if name == "embedding" else self._held_by.get(name)
        return ("forward", last) if place is None else ("backward", last, place)

    def _gradient(self, i: int, name: str, _v: Values) -> dict[Value, Tensor]:
        return {("gradients", ("gradient", i)): self.pieces.parameters[name].grad}

    def _forward(self, m: int, _v: Values) -> dict[Value, Tensor]:
        tokens, count = self.tokens[m], len(self.tokens)
        recorded = self._recorded[EMBEDDING] = Recorded(lambda: self.pieces.embed(tokens[:, :-1]))
        for k in range(self.pieces.sublayers):
            recorded = self._recorded[k] = Recorded(partial(self._sublayer, k), recorded.values[0])
        loss = Recorded(lambda x: self.pieces.loss(x, tokens[:, 1:]) / count, recorded.values[0])
        self.losses[m] = float(loss.values[0]) * count
        [self._cotangent] = loss.backward(torch.tensor(1.0))
        return {}

    def _sublayer(self, k: int, x: Tensor) -> Tensor:
        return x + self.pieces.partial(k, self.pieces.normed(k, x))

    def _backward(self, place: int, _v: Values) -> dict[Value, Tensor]:
        gradients = self._recorded.pop(place).backward(self._cotangent)
        if gradients:
            [self._cotangent] = gradients
        return {}

    def _take(self, v: Values) -> dict[Value, Tensor]:
        for i, name in enumerate(self._names):
            parameter = self.pieces.parameters[name]
            parameter.grad = v["gradients", ("mean", i)].view_as(parameter)
        return {}
