"""A deployment: a cluster and its collective library, as data.

A file with `inherits: NAME` takes from NAME.yaml beside it all fields except those it gives itself.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from overlayccl_core import loader
from overlayccl_core.configuration.fields import Fields, hint, parsed, partial, read
from overlayccl_core.configuration.sizes import MIB, Bytes


class Tier(Fields):
    """Consecutive ranks, equally near to one another."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="lower-case letters, digits, _ and -")
    ranks: int = Field(ge=1, description="consecutive ranks that one unit of the tier holds")


def _one_node(given: Mapping[str, Any]) -> int:
    return int(given["ranks"])


def _node_and_network(given: Mapping[str, Any]) -> tuple[Tier, ...]:
    ranks, on_a_node = given["ranks"], given["ranks_per_node"]
    if on_a_node in (1, ranks):
        return (Tier(name="node" if on_a_node == ranks else "network", ranks=ranks),)
    return Tier(name="node", ranks=on_a_node), Tier(name="network", ranks=ranks)


def _known_in(folder: str) -> AfterValidator:
    """Validate the name of a plug-in in a folder."""
    return AfterValidator(
        lambda name: loader.path(folder, name) and name
    )  # a ValueError lists the known ones


class Deployment(Fields):
    """A cluster and its library: where Programs run."""

    name: str
    backend: Annotated[str, _known_in("backends")] = Field(
        pattern=r"^[a-z][a-z0-9_]*$", description="folder in backends/ of the code that runs Programs here"
    )
    library: str = Field(min_length=1, description="the collective library that the backend is to use")
    launcher: Annotated[str, _known_in("launching/launchers")] = Field(
        default="here",
        description="file in launching/launchers/ of what starts the ranks of each node; here: all on this host",
    )
    launcher_options: dict[str, str | int] = Field(
        default_factory=dict,
        description="what the launcher is told beside the other fields (a link's rate): with others it is another "
        "machine",
    )
    node: str = Field(
        default="", description="what a node is (`trn1.32xlarge`), where ranks start on others than this host"
    )
    ranks: int = Field(ge=2, description="world size")
    ranks_per_node: int = Field(ge=1, default_factory=_one_node, description="default: all ranks on one node")
    tiers: tuple[Tier, ...] = Field(
        min_length=1,
        default_factory=_node_and_network,
        description="from the nearest to the farthest; the last one holds all ranks. Default: one tier, or node "
        "and network",
    )
    preset: str = Field(
        default="default",
        description="what the preset `default` means here: one of those in config/config.yaml",
    )
    environment: dict[str, str] = Field(
        default_factory=dict,
        description="variables of the ranks' environment that belong to the deployment: with others it is another",
    )
    uniform: bool = Field(
        default=False,
        description="ranks compile graphs, and all compile the same: where they differ, by tables, not by slices",
    )
    memory_budget_bytes: Bytes = Field(
        validation_alias="memory_budget",
        description="bytes that the values of one Program may hold on one rank at a time",
    )

    largest_payload_bytes: Bytes = Field(
        default=16 * MIB,
        validation_alias="largest_payload",
        description="bytes of a call on one rank up to which the selftest tries what the library takes",
    )
    start_timeout_s: float = Field(
        default=120.0, gt=0, description="seconds in which all ranks of a launch must have come up"
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.ranks % self.ranks_per_node:
            raise ValueError(
                f"ranks_per_node must divide ranks (got {self.ranks_per_node} and {self.ranks}): "
                f"use {self.ranks} for one node"
            )
        sizes = [tier.ranks for tier in self.tiers]
        nested = all(large > small and large % small == 0 for small, large in pairwise(sizes))
        if sizes[-1] != self.ranks or not nested:
            raise ValueError(
                f"tiers: each must be a multiple of the one before and the last hold all {self.ranks} ranks "
                f"(got {sizes}): name them from the nearest to the farthest"
            )
        if len({tier.name for tier in self.tiers}) != len(self.tiers):
            raise ValueError(f"tiers: names must differ (got {[t.name for t in self.tiers]})")
        return self

    @property
    def measured_fields(self) -> str:
        """The fields that a measurement depends on, as JSON: not the memory budget, nor the preset."""
        fields = self.model_dump(mode="json", exclude={"memory_budget_bytes", "preset"})
        return json.dumps(fields, sort_keys=True)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.ranks // self.ranks_per_node


INHERITS = "inherits"
_PARENT = Field(description="name of the file beside this one whose fields it has, but for those given here")
Inheriting = create_model("Inheriting", __base__=partial("Own", Deployment), inherits=(str, _PARENT))


def heir_text(parent: Deployment, comment: str, *, tiers: tuple[Tier, ...]) -> str:
    """Return the text of a file beside that of `parent`: the same deployment with other tiers, checked."""
    heir = parent.changed(tiers=tiers)
    lines = (f"  - {{name: {tier.name}, ranks: {tier.ranks}}}" for tier in heir.tiers)
    counts = (f"{name}: {getattr(heir, name)}" for name in ("ranks", "ranks_per_node"))
    return "\n".join((f"# {comment}", f"{INHERITS}: {parent.name}", *counts, "tiers:", *lines, ""))


def load(path: str | Path) -> Deployment:
    """Return the deployment described by a YAML file, named after the file. ValueError: file, field and mend."""
    return _loaded(Path(path), ())


def _loaded(file: Path, heirs: tuple[str, ...]) -> Deployment:
    def data_of(path: Path) -> Any:
        return _with_inherited(path, heirs)

    return read("deployment", file, Deployment, data_of=data_of, name=file.stem)


def _with_inherited(file: Path, heirs: tuple[str, ...]) -> Any:
    """Return the fields of a file over those of its parent, a valid deployment; heirs: files on the way here."""
    data = parsed(file)
    if not isinstance(data, Mapping) or INHERITS not in data:
        return data
    parent, line = data[INHERITS], (*heirs, file.stem)
    if parent in line:
        raise ValueError(
            f"{INHERITS}: {' -> '.join((*line, parent))} is a circle: one of them must give its fields itself"
        )
    known = sorted(path.stem for path in file.parent.glob("*.yaml") if path.stem not in line)
    if parent not in known:
        raise ValueError(f"{INHERITS}: there is no {parent!r} in {file.parent}: {hint(parent, known)}")
    above = file.with_name(f"{parent}.yaml")
    _loaded(above, line)
    return {**_with_inherited(above, line), **{k: v for k, v in data.items() if k != INHERITS}}
