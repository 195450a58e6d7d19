"""The model's side of training: one rank's parameters, and its computations between collectives.

A file training/models/<workload>.py defines a class `Pieces`, derived from the one here; the model's fields and
sites are in workloads/<workload>.py. Make a step of segments (segments.py) by hand, or use one for all models:
data_parallel.py for a chain of stages, tensor_parallel.py for sublayers, sharded.py for units with sharded
parameters, pipeline_parallel.py for two stages on different ranks.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import torch

from overlayccl_core import loader
from overlayccl_core.configuration.models import Model
from overlayccl_core.step.segment import StepSegment
from overlayccl_core.training.segments import Tensor

M = TypeVar("M", bound=Model)
Batch = Any  # a batch or a microbatch: a tensor or another type, up to the model's pieces


class TrainingStep(Protocol):
    """One training step of a rank; it leaves gradients in the parameters."""

    losses: dict[int, Tensor]
    """Microbatch -> its mean loss on this rank, or on all: only the mean over ranks counts. Empty if other ranks
    compute it."""

    def segments(self) -> Iterator[StepSegment]:
        """Yield the segments for the step driver."""


class Pieces(ABC, Generic[M]):
    """One rank's share of a model, on a torch device: rank 0 of 1 has all of it.

    Attributes:
        parameters: name -> leaf tensor with gradient, in the order of `full_parameters`; this rank's parts only.
        exchanged_kernels: Beginnings of names of kernels with which arms of the framework's own do the work of a
            Problem (`aten._scaled_dot_product`): their products are not the model's.
        leaves_work: Whether a step leaves work over until a call is in flight (`StepSegment.left_over`).
    """

    leaves_work = False
    exchanged_kernels: Sequence[str] = ()

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
        """Return name -> initial value of the whole model's parameter, the same on every rank.

        Draw on the CPU: there a seed gives the same bits, for any device of the ranks.
        """

    @staticmethod
    def shard(model: M, name: str, full: Tensor, rank: int, ranks: int) -> Tensor | None:
        """Return a rank's part of a parameter, or of its gradient: all of it, unless overridden.

        None: other ranks have it.
        """
        return full

    @staticmethod
    @abstractmethod
    def batch(model: M, *, seed: int, step: int, replica: int) -> Batch:
        """Return a step's `model.batch` examples, on the CPU: the same on every rank for the same arguments."""

    @classmethod
    def feed(cls, model: M, *, seed: int, step: int, rank: int, ranks: int) -> Batch:
        """Return what a rank reads in a step, on the CPU: the batch of its replica, unless overridden."""
        return cls.batch(model, seed=seed, step=step, replica=model.replicas(ranks)[rank])

    def settled(self, batch: Batch) -> Batch:
        """Return a batch with the decisions that this whole model makes on it; itself, unless overridden.

        A decision (which expert a token goes to) may turn with the last bit of a value, and gradients with it. So
        they are compared under the same decisions.
        """
        return batch

    @staticmethod
    def on(device: str, batch: Batch) -> Batch:
        """Move a batch to a device: a tensor, unless overridden."""
        return batch.to(device)

    @staticmethod
    def split(batch: Batch, microbatches: int) -> Sequence[Batch]:
        """Split a batch into equal microbatches: along the first axis, unless overridden.

        For any number of them, the mean of their losses is the loss of the batch.
        """
        parts: Sequence[Batch] = torch.chunk(batch, microbatches)
        return parts

    @abstractmethod
    def whole(self, batch: Batch) -> Tensor:
        """Return the mean loss of a batch without any collective, on a rank with the whole model.

        The unsharded reference uses it; so do the framework's own arms, unless `module` is overridden.
        """

    @abstractmethod
    def step(self, batches: Sequence[Batch], *, early: bool) -> TrainingStep:
        """Return forward and backward of the mean loss over microbatches and replicas.

        Args:
            early: A module starts a collective before its last read: give it values as soon as they are known.
        """

    def module(self) -> "Module":
        """Return this model for the framework's own arms; the pieces use its parameters from now on."""
        return Module(self)

    def held_out(self) -> Sequence[Batch]:
        """Return validation batches for `whole`, on the CPU; none if this rank lacks a part of the model."""
        return ()


class Module(torch.nn.Module):  # type: ignore[misc]
    """The model of a rank's pieces, with their parameters as its own; returns the loss of a batch."""

    def __init__(self, pieces: Any, own: Iterable[str] | None = None) -> None:
        """Register the parameters `own`: those of no submodule (None: all)."""
        super().__init__()
        self.pieces = pieces
        self.names: list[str] = []  # of the parameters, in torch's order
        for name in list(pieces.parameters if own is None else own):
            self.take(name, self, name.replace(".", "_"))

    def take(self, name: str, where: torch.nn.Module, attribute: str) -> None:
        """Register one of the pieces' parameters in a module."""
        parameter = self.pieces.parameters[name] = torch.nn.Parameter(self.pieces.parameters[name].detach())
        where.register_parameter(attribute, parameter)
        self.names.append(name)

    def leaves(self) -> dict[str, Tensor]:
        """Return name -> parameter, as left by a wrapper, in the pieces' order."""
        found = dict(zip(self.names, self.parameters(), strict=True))
        return {name: found[name] for name in self.pieces.parameters}

    def forward(self, batch: Batch) -> Tensor:
        """Return the mean loss."""
        return self.pieces.whole(batch)


def pieces_of(model: Model) -> type[Pieces[Any]]:
    """Return the class of a model's workload.

    Raises:
        ValueError: The workload has none; the message names those with one.
    """
    return cast(type[Pieces[Any]], loader.load("training/models", model.workload).Pieces)
