"""One training step of a data-parallel model: whole microbatches, and the mean of every gradient over ranks.

Site `gradients`, ports gradient, mean [i]: the gradient of parameter tensor i exists once the last microbatch's
backward has passed its stage. A Program reading gradients as they come overlaps its collectives with the rest of
the backward pass. For a Program reading all of them first, the last microbatch runs whole, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from overlayccl_core.step.segment import Name, StepSegment, Value
from overlayccl_core.training.pieces import Batch
from overlayccl_core.training.segments import Recorded, Tensor, averaging, share_of_mean

Values = Mapping[Value, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStage:
    """A link of a model's chain: run(x, batch), and the names of its parameters.

    x is the output of the stage before (None for the first); the last stage returns the mean loss of the batch.
    """

    parameters: tuple[str, ...]
    run: Callable[[Tensor, Batch], Tensor]


class Chain(Protocol):
    """A model held whole by every rank: a chain of stages, each parameter in one of them."""

    parameters: dict[str, Tensor]

    def whole(self, batch: Batch) -> Tensor:
        """Return the mean loss: all stages in one piece."""

    def stages(self) -> Sequence[ChainStage]:
        """Return the stages in the order of the forward pass."""


class DataParallelStep:
    """Segments of one step over microbatches; means become the parameters' gradients.

    Args:
        in_stages: Whether the last microbatch's backward runs stage by stage.
    """

    def __init__(self, pieces: Chain, batches: Sequence[Batch], *, in_stages: bool) -> None:
        self.pieces = pieces
        self.batches = batches
        self.in_stages = in_stages
        self.losses: dict[int, Tensor] = {}
        self._stages = pieces.stages()
        self._recorded: dict[int, Recorded] = {}
        self._cotangent: Tensor = None
        self._held_by = {name: k for k, stage in enumerate(self._stages) for name in stage.parameters}
        if loose := set(pieces.parameters) - set(self._held_by):
            raise ValueError(f"no stage has the parameters {', '.join(sorted(loose))}: name them in theirs")

    def segments(self) -> Iterator[StepSegment]:
        """Yield the microbatches (the last backward by stages if `in_stages`), the gradients, their means."""
        before: tuple[Name, ...] = ()
        for m in range(len(self.batches) - self.in_stages):
            yield StepSegment(name=("microbatch", m), after=before, work=partial(self._whole, m))
            before = (("microbatch", m),)
        if self.in_stages:
            yield from self._stage_by_stage(before)
        averaged = [(name, x.numel()) for name, x in self.pieces.parameters.items()]
        yield from averaging(self.pieces.parameters, averaged, self._complete_after)

    def _stage_by_stage(self, before: tuple[Name, ...]) -> Iterator[StepSegment]:
        """The forward with the last stage's backward, then the backward of each stage before it."""
        yield StepSegment(name=("forward",), after=before, work=self._forward)
        before = (("forward",),)
        for k in reversed(range(len(self._stages) - 1)):
            name = ("backward", k)
            yield StepSegment(name=name, after=before, work=partial(self._backward, k))
            before = (name,)

    def _complete_after(self, parameter: str | None) -> tuple[Name]:
        """The last segment adding to a parameter's gradient."""
        if not self.in_stages:
            return (("microbatch", len(self.batches) - 1),)
        assert parameter is not None
        stage = self._held_by[parameter]
        return (("forward",) if stage == len(self._stages) - 1 else ("backward", stage),)

    def _whole(self, m: int, _v: Values) -> dict[Value, Tensor]:
        self._lost(m, Recorded(partial(self.pieces.whole, self.batches[m])))
        return {}

    def _forward(self, _v: Values) -> dict[Value, Tensor]:
        batch = self.batches[-1]
        *stages, last = self._stages
        given: tuple[Tensor, ...] = ()
        for k, stage in enumerate(stages):
            self._recorded[k] = Recorded(_on(stage, batch), *given)
            given = self._recorded[k].values
        self._pass_on(self._lost(len(self.batches) - 1, Recorded(_on(last, batch), *given)))
        return {}

    def _lost(self, m: int, loss: Recorded) -> tuple[Tensor, ...]:
        """Keep a microbatch's loss and run its backward: the gradients of its inputs."""
        [self.losses[m]] = loss.values
        return loss.backward(share_of_mean(self.losses[m], len(self.batches)))

    def _backward(self, k: int, _v: Values) -> dict[Value, Tensor]:
        self._pass_on(self._recorded.pop(k).backward(self._cotangent))
        return {}

    def _pass_on(self, gradients: tuple[Tensor, ...]) -> None:
        [self._cotangent] = gradients or (None,)


def _on(stage: ChainStage, batch: Batch) -> Callable[..., Tensor]:
    """The stage as a function of the previous stage's output: of nothing, for the first."""
    return lambda x=None: stage.run(x, batch)
