"""The pieces of a layer of experts: what runs before, between and after its two exchanges."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from overlayccl_core.workloads.experts import Model
from torch.nn.functional import silu

from overlayccl_core.step.segment import StepSegment, Value
from overlayccl_core.training import pieces
from overlayccl_core.training.pieces import TrainingStep
from overlayccl_core.training.segments import Recorded, Tensor, share_of_mean

Values = Mapping[Value, Tensor]


class Pieces(pieces.Pieces[Model]):
    """One rank's expert, and the projection in front of the exchange. A batch is float32[expert, token, 2, width]:
    tokens and what they should become."""

    @staticmethod
    def full_parameters(model: Model, seed: int) -> dict[str, Tensor]:
        random = torch.Generator().manual_seed(seed)
        return {
            name: torch.randn(shape, generator=random) / shape[-2] ** 0.5
            for name, shape in model.parameter_sizes()
        }

    @staticmethod
    def shard(model: Model, name: str, full: Tensor, rank: int, ranks: int) -> Tensor:
        return full if name == "entrance" else full.chunk(ranks)[rank]

    @staticmethod
    def batch(model: Model, *, seed: int, step: int, replica: int) -> Tensor:
        key = hashlib.blake2b(repr((seed, step, replica)).encode(), digest_size=7).digest()
        random = torch.Generator().manual_seed(int.from_bytes(key))
        return torch.randn((model.experts, model.batch, 2, model.width), generator=random)

    @staticmethod
    def split(batch: Tensor, microbatches: int) -> Sequence[Tensor]:
        return batch.chunk(microbatches, 1)  # fewer tokens for each expert

    def enter(self, batch: Tensor) -> Tensor:
        return torch.tanh(batch[:, :, 0] @ self.parameters["entrance"])

    def experts(self, x: Tensor) -> Tensor:
        """[expert that is here, token, width] -> the same shape."""
        return torch.bmm(silu(torch.bmm(x, self.parameters["up"])), self.parameters["down"])

    def loss(self, y: Tensor, batch: Tensor) -> Tensor:
        return (y.view_as(batch[:, :, 1]) - batch[:, :, 1]).square().mean()

    def whole(self, batch: Tensor) -> Tensor:
        return self.loss(self.experts(self.enter(batch)), batch)

    def step(self, batches: Sequence[Tensor], *, early: bool) -> TrainingStep:
        return ExpertsStep(self, batches)


class ExpertsStep:
    """Route, exchange, experts, exchange, loss; and all of it back."""

    def __init__(self, pieces: Pieces, batches: Sequence[Tensor]) -> None:
        self.pieces = pieces
        self.batches = batches
        self.losses: dict[int, Tensor] = {}
        self._recorded: dict[tuple[str, int], Recorded] = {}

    def segments(self) -> Iterator[StepSegment]:
        for m in range(len(self.batches)):
            there, back = f"dispatch_{m}", f"combine_{m}"
            sent, received = (f"{there}_forward", ("send",)), (f"{there}_forward", ("received",))
            answer, answered = (f"{back}_forward", ("send",)), (f"{back}_forward", ("received",))
            d_answered, d_answer = (f"{back}_backward", ("d_received",)), (f"{back}_backward", ("d_send",))
            d_received, d_sent = (f"{there}_backward", ("d_received",)), (f"{there}_backward", ("d_send",))
            for name, needs, gives in (
                ("enter", (), (sent,)),
                ("experts", (received,), (answer,)),
                ("loss", (answered,), (d_answered,)),
                ("back_experts", (d_answer,), (d_received,)),
                ("back_enter", (d_sent,), ()),
            ):
                work = partial(getattr(self, f"_{name}"), m)
                yield StepSegment(
                    name=(name, m), needs=needs, gives=gives, work=partial(self._flat, work, gives)
                )
        gradient, mean = ("gradients", ("gradient", 0)), ("gradients", ("mean", 0))
        after = tuple(("back_enter", m) for m in range(len(self.batches)))
        entrance = self.pieces.parameters["entrance"]
        yield StepSegment(
            name=("gradient",), gives=(gradient,), after=after, work=lambda _v: {gradient: entrance.grad}
        )
        yield StepSegment(name=("mean",), needs=(mean,), work=self._take)

    @staticmethod
    def _flat(work, gives, values):
        """Values in order; a work gives at most one."""
        given = work(*values.values())
        return dict(zip(gives, [given], strict=False))

    def _enter(self, m: int) -> Tensor:
        return self._record("enter", m, lambda: self.pieces.enter(self.batches[m]))

    def _experts(self, m: int, received: Tensor) -> Tensor:
        x = received.view(1, -1, received.shape[-1])
        return self._record("experts", m, self.pieces.experts, x)

    def _loss(self, m: int, answered: Tensor) -> Tensor:
        self.losses[m] = self._record("loss", m, lambda y: self.pieces.loss(y, self.batches[m]), answered)
        return self._back("loss", m, share_of_mean(self.losses[m], len(self.batches)))

    def _back_experts(self, m: int, cotangent: Tensor) -> Tensor:
        return self._back("experts", m, cotangent.view(1, *cotangent.shape))

    def _back_enter(self, m: int, cotangent: Tensor) -> None:
        self._recorded.pop(("enter", m)).backward(cotangent.view_as(self.batches[m][:, :, 0]))

    def _record(self, name, m, function, *inputs):
        recorded = self._recorded[name, m] = Recorded(function, *inputs)
        return recorded.values[0]

    def _back(self, name: str, m: int, cotangent: Tensor) -> Tensor:
        [gradient] = self._recorded.pop((name, m)).backward(cotangent)
        return gradient

    def _take(self, values: Values) -> dict[Value, Tensor]:
        """Of the experts all ranks' losses are summed, and their mean is wanted."""
        [mean] = values.values()
        self.pieces.parameters["entrance"].grad = mean.view_as(self.pieces.parameters["entrance"])
        for name in ("up", "down"):
            self.pieces.parameters[name].grad /= self.pieces.ranks
        return {}
