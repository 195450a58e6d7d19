"""What a model gives to training: one rank's parameters, and what it computes between collectives.

A file training/models/<workload>.py defines a class `Pieces` that derives from the one here; its fields and sites
are in workloads/<workload>.py. A step may be made of segments (segments.py) by hand, or by one of those that are
here for all models: data_parallel.py for a chain of stages, tensor_parallel.py for sublayers, sharded.py for units
whose parameters lie in shards, pipeline_parallel.py for two stages on different ranks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import torch

from overlayccl_core import loader
from overlayccl_core.configuration.models import Model
from overlayccl_core.training.segments import StepSegment, Tensor

M = TypeVar("M", bound=Model)
Batch = Any  # a batch or a microbatch: a tensor or whatever a model's pieces make and take


class Step(Protocol):
    """One training step of a rank; once it has run, gradients are in the parameters."""

    losses: dict[int, Tensor]  # microbatch -> its mean loss on this rank; empty where others compute the loss

    def segments(self) -> Iterator[StepSegment]:
        """What the step driver runs."""


class Pieces(ABC, Generic[M]):
    """One rank's share of a model, on a device as torch calls it: rank 0 of 1 has all of it.

    parameters: name -> leaf tensor with gradient, in the order of `full_parameters`; those that it has a part of.
    leaves_work: whether a step leaves work over until a call is in flight (`StepSegment.left_over`).
    """

    leaves_work = False

    def __init__(
        self, model: M, full: Mapping[str, Tensor], rank: int = 0, ranks: int = 1, device: str = "cpu"
    ) -> None:
        self.model = model
        self.rank = rank
        self.ranks = ranks
        self.device = device
        self.parameters: dict[str, Tensor] = {
            name: mine.to(device, copy=True).requires_grad_()
            for name, value in full.items()
            if (mine := self.shard(model, name, value, rank, ranks)) is not None
        }

    @staticmethod
    @abstractmethod
    def full_parameters(model: M, seed: int) -> dict[str, Tensor]:
        """name -> initial value of the whole model's parameter, the same on every rank.

        On the CPU, where the same seed draws the same bits whatever the ranks' device is.
        """

    @staticmethod
    def shard(model: M, name: str, full: Tensor, rank: int, ranks: int) -> Tensor | None:
        """What a rank has of a parameter, or of its gradient: all of it, unless a model says otherwise.

        None: nothing, as other ranks have it.
        """
        return full

    @staticmethod
    @abstractmethod
    def batch(model: M, *, seed: int, step: int, replica: int) -> Batch:
        """The data of a step, `model.batch` examples, on the CPU; the same for the same arguments on every rank."""

    @staticmethod
    def on(device: str, batch: Batch) -> Batch:
        """A batch on a device: a tensor, unless a model says otherwise."""
        return batch.to(device)

    @staticmethod
    def split(batch: Batch, microbatches: int) -> Sequence[Batch]:
        """Its microbatches, equally large: cut along the first axis, unless a model says otherwise.

        The mean of their losses is that of the batch, however many there are.
        """
        parts: Sequence[Batch] = torch.chunk(batch, microbatches)
        return parts

    @abstractmethod
    def whole(self, batch: Batch) -> Tensor:
        """The mean loss of a batch without any collective, on a rank that has the whole model.

        The unsharded reference is made of it, and the framework's own arms, unless `module` says otherwise.
        """

    @abstractmethod
    def step(self, batches: Sequence[Batch], *, early: bool) -> Step:
        """Forward and backward of the mean loss over microbatches and replicas.

        early: some module starts a collective before it has read all that it reads, so what it reads should be
        given as soon as it is known.
        """

    def module(self) -> "Module":
        """This model as the framework's own arms wrap it; the pieces use its parameters from now on."""
        return Module(self)

    def held_out(self) -> Sequence[Batch]:
        """Batches on the CPU to validate with, for `whole`; none where this rank has not the whole model."""
        return ()


class Module(torch.nn.Module):  # type: ignore[misc]
    """The model of a rank's pieces, their parameters its own: gives the loss of a batch."""

    def __init__(self, pieces: Any, own: Iterable[str] | None = None) -> None:
        """own: parameters that are not of a module inside (None: all)."""
        super().__init__()
        self.pieces = pieces
        self.names: list[str] = []  # of the parameters, as torch lists them
        for name in list(pieces.parameters if own is None else own):
            self.take(name, self, name.replace(".", "_"))

    def take(self, name: str, where: torch.nn.Module, attribute: str) -> None:
        """Register one of the pieces' parameters in a module."""
        parameter = self.pieces.parameters[name] = torch.nn.Parameter(self.pieces.parameters[name].detach())
        where.register_parameter(attribute, parameter)
        self.names.append(name)

    def leaves(self) -> dict[str, Tensor]:
        """name -> parameter, as whatever wraps this has left it, in the pieces' order."""
        found = dict(zip(self.names, self.parameters(), strict=True))
        return {name: found[name] for name in self.pieces.parameters}

    def forward(self, batch: Batch) -> Tensor:
        """The mean loss."""
        return self.pieces.whole(batch)


def pieces_of(model: Model) -> type[Pieces[Any]]:
    """The class of a model's workload; ValueError naming the workloads that have one."""
    return cast(type[Pieces[Any]], loader.load("training/models", model.workload).Pieces)
