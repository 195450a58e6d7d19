"""A training model: a file in config/models, typed. Its workload says what it asks its ranks to do together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast

from overlayccl_core import loader
from overlayccl_core.configuration import named_files

FOLDER = Path("config/models")


class Parallelism(StrEnum):
    """How a model is spread over its ranks."""

    TENSOR = "tensor"  # each block over all ranks (Megatron-LM); replicated embedding, norms and head
    DATA = "data"  # a whole model on every rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Shapes of a training step: widths in channels, `sequence` in tokens, microbatches as counts to be measured.

    loss_microbatches: the count at which losses over many steps are compared. ddp_buckets_mib: bucket sizes of
    torch's DistributedDataParallel, each an arm (data parallelism only).
    """

    name: str
    workload: str
    parallelism: Parallelism
    width: int
    hidden: int
    layers: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    microbatches: tuple[int, ...]
    loss_microbatches: int
    ddp_buckets_mib: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"model {self.name}: heads of rotary attention need an even width (got {self.width} channels for "
                f"{self.heads} heads): make width a multiple of {2 * self.heads}"
            )
        if self.loss_microbatches not in self.microbatches:
            raise ValueError(
                f"model {self.name}: loss_microbatches must be one of microbatches (got {self.loss_microbatches} "
                f"and {list(self.microbatches)})"
            )
        if self.ddp_buckets_mib and self.parallelism is not Parallelism.DATA:
            raise ValueError(f"model {self.name}: ddp_buckets_mib is of data parallelism: leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in a training step where a Problem occurs: `entry` is the Case's configuration entry."""

    name: str
    problem: str
    entry: Mapping[str, Any]


class Workload(Protocol):
    """What a file in workloads/ defines (workloads/README.md)."""

    parameter_sizes: Callable[..., tuple[tuple[str, tuple[int, ...]], ...]]
    sites: Callable[..., tuple[Site, ...]]
    check: Callable[..., None]


def load(name: str, folder: Path = FOLDER) -> Model:
    """The model of that name. ValueError: file, field and mend."""
    path = folder / f"{name}.yaml"
    data = named_files.read("model", path, _schema())
    try:
        return from_json({"name": name, **data})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_json(data: Mapping[str, Any]) -> Model:
    """The model that `dataclasses.asdict` made plain."""
    typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return Model(**{**typed, "parallelism": Parallelism(data["parallelism"])})


def label(model: str, microbatches: int) -> str:
    """`nano m8`: a model at a number of microbatches, as tables and messages name it."""
    return f"{model} m{microbatches}"


def workload_of(model: Model) -> Workload:
    """The model's plug-in; ValueError naming those there are."""
    return cast(Workload, loader.load("workloads", model.workload))


def sites_of(model: Model, microbatches: int) -> tuple[Site, ...]:
    """The sites of a step, in the order in which the step driver prefers them."""
    return workload_of(model).sites(model, microbatches)


def _schema() -> dict[str, Any]:
    count = {"type": "integer", "minimum": 1}
    optional = {"name", "ddp_buckets_mib"}
    properties: dict[str, Any] = {f.name: count for f in fields(Model)}
    del properties["name"]
    properties |= {
        "workload": {"type": "string"},
        "parallelism": {"enum": [p.value for p in Parallelism]},
        "microbatches": {"type": "array", "items": count, "minItems": 1, "uniqueItems": True},
        "ddp_buckets_mib": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [f.name for f in fields(Model) if f.name not in optional],
        "properties": properties,
    }
