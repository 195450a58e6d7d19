"""A training model: a file in config/models, typed by its workload, which says what its ranks do together.

`Model` is what every model has. A file workloads/<workload>.py derives two classes: `Sizes`, the fields that
parameter sizes follow from, and `Model`, with all fields (workloads/README.md).
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
    """A place in a training step where a Problem occurs: `entry` is the Case's configuration entry.

    Names differ within a step. direction: which of the Problem's two Programs runs there. A backward whose Program
    is chosen for itself is a site of its own, beside that of its forward.
    """

    name: str
    problem: str
    entry: Mapping[str, Any]
    direction: Direction = Direction.FORWARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one training step asks of the machine.

    rank_parameters: elements of parameters on the rank that holds most. activation: elements that one block hands
    to the next on one rank, of one microbatch. flops: floating-point operations of the matrix products of a step,
    forward and backward, of all ranks together; nothing is computed twice (no recomputation).
    """

    dtype: DType
    rank_parameters: int
    activation: int
    flops: int

    @property
    def parameter_bytes(self) -> int:
        """Of one rank; its gradients take as many."""
        return self.rank_parameters * self.dtype.bytes

    @property
    def optimizer_bytes(self) -> int:
        """AdamW's (Loshchilov and Hutter 2019) two moments in float32; beside parameters of 16 bits a copy of those
        in float32."""
        copies = 2 if self.dtype.bytes >= DType.FLOAT32.bytes else 3
        return copies * self.rank_parameters * DType.FLOAT32.bytes

    @property
    def activation_bytes(self) -> int:
        """Of one microbatch between two blocks."""
        return self.activation * self.dtype.bytes


class Sizes(Fields, ABC):
    """The fields from which the sizes of a model's parameters follow."""

    @abstractmethod
    def parameter_sizes(self) -> tuple[tuple[str, Shape], ...]:
        """(name, shape) of every parameter, in the order of the forward pass."""


class Model(Sizes):
    """What every model has: a training step on a batch, in each of the ways to split it that are measured."""

    name: str
    workload: str = Field(description="a file in overlayccl_core/workloads")
    batch: Count = Field(description="examples of a step on each replica")
    microbatches: Annotated[tuple[Count, ...], AfterValidator(unique)] = Field(
        min_length=1, description="into how many microbatches a batch is split; each is measured, 1 is whole"
    )
    loss_microbatches: Count = Field(description="losses over many steps are compared at this one of them")

    @model_validator(mode="after")
    def _splits(self) -> Self:
        if uneven := [m for m in self.microbatches if self.batch % m]:
            raise ValueError(
                f"microbatches must divide batch (got {uneven[0]} and {self.batch}): leave it out, or make batch a "
                "multiple of it"
            )
        return self

    @model_validator(mode="after")
    def _losses_are_compared(self) -> Self:
        if self.loss_microbatches not in self.microbatches:
            raise ValueError(
                f"loss_microbatches must be one of microbatches (got {self.loss_microbatches} and "
                f"{list(self.microbatches)})"
            )
        return self

    @abstractmethod
    def check(self, ranks: int) -> None:
        """ValueError where the model cannot be spread over so many ranks."""

    @abstractmethod
    def sites(self, microbatches: int, ranks: int) -> tuple[Site, ...]:
        """Where Problems occur in a step of so many ranks, in the order in which the step driver prefers them:
        backward first."""

    @abstractmethod
    def replicas(self, ranks: int) -> tuple[int, ...]:
        """rank -> which replica of the data it trains on: equal for ranks that share a batch; 0 is the first."""

    def data_digest(self) -> str | None:
        """Of the files that its training reads; None: it reads none."""
        return None

    def on_text(self, folder: str | None, tokenizer: str | None) -> Self:
        """The same model trained on the text of a folder, as the tokens of a file; what is None stays as it is.

        ValueError where it reads none.
        """
        raise ValueError(f"workload {self.workload} reads no text: leave corpus and tokenizer out")

    def identity(self) -> str:
        """JSON of all that decides what is trained: its fields, and what the files hold that it reads."""
        return json.dumps([self.to_json(), self.data_digest()])

    def work(self, microbatches: int, ranks: int) -> Work | None:
        """What a step asks of the machine; None where the workload does not say."""
        return None

    @property
    def framework_arms(self) -> tuple[str, ...]:
        """Arms of the framework's own (measuring/arms.py); none, unless a model says so."""
        return ()

    @classmethod
    def from_data(cls, data: object, **given: Any) -> Self:
        """The model of the workload that the data names. ValueError: field, rule, value and mend."""
        if cls is not Model or not isinstance(data, Mapping):
            return super().from_data(data, **given)
        own = chosen(Model, data, "workload", lambda name: workload_of(name).Model)
        return cast(Self, own.from_data(data, **given))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The model that `to_json` wrote, of its own class."""
        return super().from_json(text) if cls is not Model else cls.from_data(json.loads(text))


class Workload(Protocol):
    """What a file in workloads/ defines."""

    Sizes: type[Sizes]
    Model: type[Model]


def workload_of(name: str) -> Workload:
    """The plug-in; ValueError naming those there are."""
    return loader.plug_in(Workload, "workloads", name)


def load(name: str, folder: Path = FOLDER) -> Model:
    """The model of that name. ValueError: file, field and mend."""
    return read("model", folder / f"{name}.yaml", Model, name=name)


def label(model: str, microbatches: int) -> str:
    """`nano m8`: a model at a number of microbatches, as tables and messages name it."""
    return f"{model} m{microbatches}"


def of_label(text: str) -> tuple[str, int]:
    """(model, microbatches) of a `label`."""
    model, _, microbatches = text.rpartition(" m")
    return model, int(microbatches)


def of_labels(texts: str | None) -> list[tuple[str, int]]:
    """The same of each in `nano m8, nano m1`, as the column `trained_in` has them; none of None."""
    return [of_label(text) for text in texts.split(", ")] if texts else []


def problems_of(model: Model, ranks: int) -> tuple[str, ...]:
    """The Problems at the sites of a model's step, in the order of their names."""
    return tuple(sorted({site.problem for site in sites_of(model, model.microbatches[0], ranks)}))


def sites_of(model: Model, microbatches: int, ranks: int) -> tuple[Site, ...]:
    """The sites of a step in the driver's order of preference. ValueError where two share a name."""
    sites = model.sites(microbatches, ranks)
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"model {model.name}: two sites are called {twice[0]!r}: give each a name of its own"
        )
    return sites
