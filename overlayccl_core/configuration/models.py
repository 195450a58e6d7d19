"""A training model: a file in config/models, typed by its workload, which tells what its ranks do together.

`Model` has the fields common to all models. A file workloads/<workload>.py derives two classes: `Sizes`, with the
fields that determine parameter sizes, and `Model`, with all fields (workloads/README.md).
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, cast

from pydantic import AfterValidator, Field, model_validator

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Count, Fields, chosen, read, unique
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.problem import Direction

FOLDER = Path("config/models")
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in a training step where a Problem occurs.

    A backward with a Program chosen for itself is a site of its own, beside that of its forward.

    Attributes:
        name: Differs from the names of the step's other sites.
        entry: Configuration entry of the Case.
        direction: Which of the Problem's two Programs runs here.
    """

    name: str
    problem: str
    entry: Mapping[str, Any]
    direction: Direction = Direction.FORWARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of the machine in one training step.

    Attributes:
        rank_parameters: Elements of parameters on the fullest rank.
        activation: Elements handed from one block to the next on one rank, of one microbatch.
        flops: Floating-point operations of the matrix products of a step, forward and backward, of all ranks
            together. Nothing is computed twice (no recomputation).
    """

    dtype: DType
    rank_parameters: int
    activation: int
    flops: int

    @property
    def parameter_bytes(self) -> int:
        """Bytes of one rank's parameters; its gradients take as many."""
        return self.rank_parameters * self.dtype.bytes

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of AdamW's state on one rank (Loshchilov and Hutter 2019): two moments in float32.

        Parameters of 16 bits also have a float32 copy.
        """
        copies = 2 if self.dtype.bytes >= DType.FLOAT32.bytes else 3
        return copies * self.rank_parameters * DType.FLOAT32.bytes

    @property
    def activation_bytes(self) -> int:
        """Bytes of one microbatch between two blocks, on one rank."""
        return self.activation * self.dtype.bytes


class Sizes(Fields, ABC):
    """The fields that determine the sizes of a model's parameters."""

    @abstractmethod
    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """Return (name, shape) of every parameter, in the order of the forward pass."""


class Model(Sizes):
    """Fields common to all models: a training step on a batch, measured at each of its numbers of microbatches."""

    name: str
    workload: str = Field(description="a file in overlayccl_core/workloads")
    batch: Count = Field(description="examples of a step on each replica")
    microbatches: Annotated[tuple[Count, ...], AfterValidator(unique)] = Field(
        min_length=1, description="into how many microbatches a batch is split; each is measured, 1 is whole"
    )
    loss_microbatches: Count = Field(description="losses over many steps are compared at this one of them")

    @model_validator(mode="after")
    def _fit_microbatches(self) -> Self:
        if uneven := [m for m in self.microbatches if self.batch % m]:
            raise ValueError(
                f"microbatches must divide batch (got {uneven[0]} and {self.batch}): leave it out, or make batch a "
                "multiple of it"
            )
        if self.loss_microbatches not in self.microbatches:
            raise ValueError(
                f"loss_microbatches must be one of microbatches (got {self.loss_microbatches} and "
                f"{list(self.microbatches)})"
            )
        return self

    @abstractmethod
    def check(self, ranks: int) -> None:
        """Raise ValueError if the model cannot be spread over so many ranks."""

    @abstractmethod
    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Return the sites of a step on so many ranks, in the step driver's order of preference: backward first."""

    @abstractmethod
    def replicas(self, ranks: int) -> tuple[int, ...]:
        """Return rank -> index of its data replica: equal for ranks with the same batch; 0 is the first."""

    def data_digest(self) -> str | None:
        """Return the digest of the files read in training, or None for a model without such files."""
        return None

    def on_text(self, folder: str | None, tokenizer: str | None) -> Self:
        """Return this model trained on a folder of text, read with a tokenizer file; None keeps either as it is.

        Raises:
            ValueError: The model reads no text.
        """
        raise ValueError(f"workload {self.workload} reads no text: leave corpus and tokenizer out")

    def identity(self) -> str:
        """Return as JSON all that decides the training: the fields, and a digest of the files read."""
        return json.dumps([self.to_json(), self.data_digest()])

    def work(self, microbatches: int, ranks: int) -> Work | None:
        """Return the work of a step, or None if the workload does not declare it."""
        return None

    @property
    def decides(self) -> bool:
        """Whether a step compares values and decides by them (a router): rounding may then turn a decision."""
        return False

    def why_sized_alone(self) -> str | None:
        """Return why this one of its workload is sized and not trained; None if it is trained."""
        return None

    @property
    def framework_arms(self) -> tuple[str, ...]:
        """Arms of the framework's own (measuring/arms.py); none by default."""
        return ()

    @classmethod
    def class_of(cls, data: Mapping[str, Any]) -> type[Self]:
        """Return the class of the data's workload."""
        if cls is not Model:
            return cls
        return cast(type[Self], chosen(Model, data, "workload", lambda name: workload_of(name).Model))


class Workload(Protocol):
    """Classes defined by a file in workloads/."""

    Sizes: type[Sizes]
    Model: type[Model]


def workload_of(name: str) -> Workload:
    """Return the plug-in. A ValueError lists the known ones."""
    return loader.plug_in(Workload, "workloads", name)


def load(name: str, folder: Path = FOLDER) -> Model:
    """Return the model of a name. ValueError: file, field and mend."""
    return read("model", folder / f"{name}.yaml", Model, name=name)


def why_not_trained(model: Model) -> str | None:
    """Return why a model is sized and not trained; None if a run trains it."""
    trained = loader.names("training/models")
    if model.workload in trained:
        return model.why_sized_alone()
    return (
        f"its workload {model.workload} has no training step (no file training/models/{model.workload}.py; there "
        f"are: {', '.join(trained)})"
    )


def label(model: str, microbatches: int) -> str:
    """Return `nano m8`: the name of a model at a number of microbatches, for tables and messages."""
    return f"{model} m{microbatches}"


def of_label(text: str) -> tuple[str, int]:
    """Return (model, microbatches) of a `label`."""
    model, _, microbatches = text.rpartition(" m")
    return model, int(microbatches)


def of_labels(texts: str | None) -> list[tuple[str, int]]:
    """Return (model, microbatches) of each label in `nano m8, nano m1` (as in column `trained_in`); [] of None."""
    return [of_label(text) for text in texts.split(", ")] if texts else []


def problems_of(model: Model, ranks: int) -> tuple[str, ...]:
    """Return the Problems at the sites of a model's step, sorted by name."""
    return tuple(sorted({site.problem for site in sites_of(model, model.microbatches[0], ranks)}))


def sites_of(model: Model, microbatches: int, ranks: int) -> tuple[Site, ...]:
    """Return the sites of a step in the driver's order of preference. ValueError if two share a name."""
    sites = model.sites(microbatches, ranks)
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"model {model.name}: two sites are called {twice[0]!r}: give each a name of its own"
        )
    return sites
