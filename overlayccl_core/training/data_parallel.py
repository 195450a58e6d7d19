"""One training step of a data-parallel model: whole microbatches, and the mean of every gradient over ranks.

Site `gradients`, ports gradient, mean [i]: tensor i of the model's parameters is there once the last microbatch's
backward has passed the block that holds it, so a Program that reads gradients as they come overlaps its collectives
with the rest of the backward pass. For one that reads all of them first, the last microbatch is whole too.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch

from overlayccl_core.training.models.llama import Pieces
from overlayccl_core.training.segments import Name, Recorded, StepSegment, Tensor, Value

Values = Mapping[Value, Tensor]
EMBEDDING = -1  # its place in front of the blocks
HALVES = 2  # sublayers of a block


class DataParallelStep:
    """Segments of one step over microbatches of tokens int64[B, S + 1]; means become the parameters' gradients.

    in_blocks: whether the last microbatch's backward runs block by block.
    """

    def __init__(self, pieces: Pieces, microbatches: Sequence[Tensor], *, in_blocks: bool) -> None:
        self.pieces = pieces
        self.tokens = microbatches
        self.in_blocks = in_blocks
        self.losses: dict[int, float] = {}
        self._blocks = range(pieces.sublayers // HALVES)
        self._recorded: dict[int, Recorded] = {}
        self._cotangent: Tensor = None
        self._names = list(pieces.parameters)
        self._held_by = {
            name: k // HALVES for k in range(pieces.sublayers) for name in pieces.names_of(k)
        } | {"embedding": EMBEDDING}

    def segments(self) -> Iterator[StepSegment]:
        """Whole microbatches; of the last one the backward block by block; gradients as they come; their means."""
        before: tuple[Name, ...] = ()
        for m in range(len(self.tokens) - self.in_blocks):
            yield StepSegment(name=("microbatch", m), after=before, work=partial(self._whole, m))
            before = (("microbatch", m),)
        if self.in_blocks:
            yield from self._block_by_block(before)
        for i, parameter in enumerate(self._names):
            yield StepSegment(
                name=("gradient", i),
                gives=(("gradients", ("gradient", i)),),
                after=(self._complete_after(parameter),),
                work=partial(self._gradient, i, parameter),
            )
        needs = tuple(("gradients", ("mean", i)) for i in range(len(self._names)))
        yield StepSegment(name=("means",), needs=needs, work=self._take)

    def _block_by_block(self, before: tuple[Name, ...]) -> Iterator[StepSegment]:
        yield StepSegment(name=("forward",), after=before, work=self._forward)
        before = (("forward",),)
        for place in (*reversed(self._blocks), EMBEDDING):
            name = ("backward", place)
            yield StepSegment(name=name, after=before, work=partial(self._backward, place))
            before = (name,)

    def _complete_after(self, parameter: str) -> Name:
        """The segment after which a parameter's gradient is whole."""
        if not self.in_blocks:
            return ("microbatch", len(self.tokens) - 1)
        place = self._held_by.get(parameter)
        return ("forward",) if place is None else ("backward", place)  # norm and head: with the loss

    def _whole(self, m: int, _v: Values) -> dict[Value, Tensor]:
        loss = self.pieces.whole(self.tokens[m]) / len(self.tokens)
        self.losses[m] = float(loss.detach()) * len(self.tokens)
        loss.backward()
        return {}

    def _forward(self, _v: Values) -> dict[Value, Tensor]:
        tokens, count = self.tokens[-1], len(self.tokens)
        recorded = self._recorded[EMBEDDING] = Recorded(lambda: self.pieces.embed(tokens[:, :-1]))
        for block in self._blocks:
            recorded = self._recorded[block] = Recorded(partial(self._block, block), recorded.values[0])
        loss = Recorded(lambda x: self.pieces.loss(x, tokens[:, 1:]) / count, recorded.values[0])
        self.losses[count - 1] = float(loss.values[0]) * count
        [self._cotangent] = loss.backward(torch.tensor(1.0))
        return {}

    def _block(self, block: int, x: Tensor) -> Tensor:
        for k in range(HALVES * block, HALVES * (block + 1)):
            x = x + self.pieces.partial(k, self.pieces.normed(k, x))
        return x

    def _backward(self, place: int, _v: Values) -> dict[Value, Tensor]:
        gradients = self._recorded.pop(place).backward(self._cotangent)
        if gradients:
            [self._cotangent] = gradients
        return {}

    def _gradient(self, i: int, parameter: str, _v: Values) -> dict[Value, Tensor]:
        return {("gradients", ("gradient", i)): self.pieces.parameters[parameter].grad}

    def _take(self, v: Values) -> dict[Value, Tensor]:
        for i, name in enumerate(self._names):
            parameter = self.pieces.parameters[name]
            parameter.grad = v["gradients", ("mean", i)].view_as(parameter)
        return {}
