"""One training step of a pipeline of two stages, cut at the transfers between them.

Site `stages`, ports of pp_send_recv: activations a -> b and their gradients ga -> gb [m]. All ranks run the same
segments. Segments of the other stage are empty on a rank: it writes zeros to ports not valid there.

    first_forward(m)   the first stage, forward
    second(m)          the second stage, forward and backward
    first_backward(m)  the first stage, backward

The schedule limits the microbatches in flight, and problems/pp_send_recv.py holds a Program to it: the first stage
runs when the Program reads its output.

Site `gradients`, ports gradient, mean [i], with several pipelines: after the last backward each stage's gradients
are averaged over its ranks. Tensor i is a parameter of the rank's own stage, padded up to the other's size.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import torch

from overlayccl_core.step.segment import Name, StepSegment, Value
from overlayccl_core.training.pieces import Batch, Module
from overlayccl_core.training.segments import Averaged, Recorded, Tensor, averaging, share_of_mean

Values = Mapping[Value, Tensor]


class Stages(Protocol):
    """A model cut in two; a rank has one of the stages."""

    is_first: bool
    device: str
    parameters: dict[str, Tensor]

    def first(self, batch: Batch) -> Tensor:
        """Run the first stage; return its output."""

    def handed_over(self, batch: Batch) -> tuple[int, ...]:
        """Return the shape of either stage's output for a microbatch."""

    def second(self, x: Tensor, batch: Batch) -> Tensor:
        """Run the second stage on the first's output; return the mean loss."""

    def last(self, x: Tensor) -> Tensor:
        """Run the second stage without its loss."""

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss of the second stage's output."""


class OneStage(Module):
    """This rank's stage for the framework's own schedules: `loss` is of the second stage's output."""

    def forward(self, x: Tensor) -> Tensor:
        """Run this stage on a batch or on the first stage's output."""
        return self.pieces.first(x) if self.pieces.is_first else self.pieces.last(x)

    def loss(self, y: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss of a microbatch."""
        return self.pieces.loss(y, batch)

    def handed_over(self, batch: Batch) -> tuple[int, ...]:
        """Return the shape of either stage's output for a microbatch."""
        shape: tuple[int, ...] = self.pieces.handed_over(batch)
        return shape


class PipelineStep:
    """Segments of one step over microbatches; gradients end up in the parameters.

    Args:
        shape: Shape of a transfer between the stages.
        averaged: Empty if there is one pipeline only.
    """

    def __init__(
        self, pieces: Stages, batches: Sequence[Batch], *, shape: tuple[int, ...], averaged: Averaged = ()
    ) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, Tensor] = {}
        self._nothing = torch.zeros(shape, device=pieces.device)
        self._averaged = averaged
        self._recorded: dict[int, Recorded] = {}

    def segments(self) -> Iterator[StepSegment]:
        """Yield both stages of every microbatch, then the gradients and their means."""
        backward: list[Name] = []
        for m in range(len(self.batches)):
            yield StepSegment(
                name=("first_forward", m), gives=(_stages("a", m),), work=partial(self._first_forward, m)
            )
            yield StepSegment(
                name=("second", m),
                needs=(_stages("b", m),),
                gives=(_stages("ga", m),),
                work=partial(self._second, m),
            )
            yield StepSegment(
                name=("first_backward", m), needs=(_stages("gb", m),), work=partial(self._first_backward, m)
            )
            backward += [("second", m), ("first_backward", m)]
        if self._averaged:
            yield from averaging(self.pieces.parameters, self._averaged, lambda _: tuple(backward))

    def _first_forward(self, m: int, _v: Values) -> dict[Value, Tensor]:
        if not self.pieces.is_first:
            return {_stages("a", m): self._nothing}
        self._recorded[m] = Recorded(lambda: self.pieces.first(self.batches[m]))
        [activation] = self._recorded[m].values
        return {_stages("a", m): activation}

    def _second(self, m: int, v: Values) -> dict[Value, Tensor]:
        if self.pieces.is_first:
            return {_stages("ga", m): self._nothing}
        loss = Recorded(lambda x: self.pieces.second(x, self.batches[m]), v[_stages("b", m)])
        [self.losses[m]] = loss.values
        [gradient] = loss.backward(share_of_mean(self.losses[m], len(self.batches)))
        return {_stages("ga", m): gradient}

    def _first_backward(self, m: int, v: Values) -> dict[Value, Tensor]:
        if self.pieces.is_first:
            self._recorded.pop(m).backward(v[_stages("gb", m)])
        return {}


def _stages(name: str, m: int) -> Value:
    return "stages", (name, m)
