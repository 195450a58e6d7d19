"""The folder of a training launch: which arms the ranks are to run, and what each rank found.

plan.json        model, arms, how many steps
modules/*.py     emitted modules of all arms
found-<r>.json   what rank r measured, one entry for each arm and purpose
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.models import Model, from_json

PLAN_FILE = "plan.json"
MODULES = "modules"


class Purpose(StrEnum):
    """Why an arm runs."""

    TIMED = "timed"
    QUIET = "quiet"  # every collective replaced by local work: what is left is the model's own time
    LOSS = "loss"  # many steps from several seeds, not timed


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSite:
    """An emitted module at a site of the step. members: global ranks of the groups; shapes: of its outputs."""

    site: str
    module: str
    members: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[tuple[str | int, ...], tuple[int, ...]], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ArmSite":
        """The site that `asdict` made plain."""
        members = tuple(tuple(m) for m in data["members"])
        shapes = tuple((tuple(port), tuple(shape)) for port, shape in data["shapes"])
        return cls(site=data["site"], module=data["module"], members=members, shapes=shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of running the step of `microbatches`.

    merged_batch: the microbatches run as one batch (other matmuls, so no arm of the comparison). ddp_bucket_mib:
    torch's DistributedDataParallel instead of modules.
    """

    name: str
    microbatches: int
    sites: tuple[ArmSite, ...] = ()
    merged_batch: bool = False
    ddp_bucket_mib: float | None = None
    purposes: tuple[Purpose, ...] = (Purpose.TIMED,)

    @property
    def label(self) -> str:
        """For messages: `developer, M=8`."""
        return f"{self.name}, M={self.microbatches}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Arm":
        """The arm that `asdict` made plain."""
        sites = tuple(map(ArmSite.from_json, data["sites"]))
        return cls(**{**data, "sites": sites, "purposes": tuple(map(Purpose, data["purposes"]))})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """seconds: of timed steps, from which their number follows. loss_seeds: empty where losses are not compared."""

    seconds: float
    minimum_steps: int
    maximum_steps: int
    loss_steps: int
    loss_seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """plan.json. The launch's number seeds data and the order of arms."""

    launch: int
    ranks: int
    library: str
    model: Model
    settings: StepSettings
    arms: tuple[Arm, ...]

    def write(self, folder: Path, sources: Mapping[str, str]) -> None:
        """Make the folder's files; sources: module's name -> its text."""
        (folder / MODULES).mkdir(parents=True)
        for name, source in sources.items():
            (folder / name).write_text(source)
        (folder / PLAN_FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> "TrainingPlan":
        """The plan of a folder."""
        data = json.loads((folder / PLAN_FILE).read_text())
        settings = {**data["settings"], "loss_seeds": tuple(data["settings"]["loss_seeds"])}
        return cls(
            **{
                **data,
                "model": from_json(data["model"]),
                "settings": StepSettings(**settings),
                "arms": tuple(map(Arm.from_json, data["arms"])),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What one step of an arm does on this rank, counted while it ran.

    matmuls and a digest of their shapes (of all that the step multiplies, in any order); collectives: calls of
    the library; calls: of each site; programs: (site, digest) as the modules that ran tell it; library_version:
    as this rank has it; gradient_rel_error: of the worst parameter, against the unsharded model.
    """

    matmuls: int
    matmul_digest: str
    collectives: int
    calls: tuple[tuple[str, int], ...]
    programs: tuple[tuple[str, str], ...]
    library_version: str
    peak_activation_bytes: int
    gradient_rel_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one rank measured of one arm: start and end (ns) of every step, the cold ones first; its losses."""

    arm: int
    purpose: Purpose
    seed: int
    cold: int
    starts_ns: tuple[int, ...]
    ends_ns: tuple[int, ...]
    losses: tuple[float, ...]
    validation_loss: float | None = None
    inspection: Inspection | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Found":
        """What `asdict` made plain."""
        typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        if (inspected := data["inspection"]) is not None:
            calls = tuple((site, count) for site, count in inspected["calls"])
            programs = tuple((site, digest) for site, digest in inspected["programs"])
            typed["inspection"] = Inspection(**{**inspected, "calls": calls, "programs": programs})
        return cls(**{**typed, "purpose": Purpose(data["purpose"])})


def write_found(folder: Path, rank: int, found: Sequence[Found]) -> None:
    """Write what a rank found."""
    (folder / f"found-{rank}.json").write_text(json.dumps([asdict(one) for one in found]))


def read_found(folder: Path, ranks: int) -> list[list[Found]]:
    """[rank][entry], the same entries on every rank."""
    texts = [(folder / f"found-{rank}.json").read_text() for rank in range(ranks)]
    return [[Found.from_json(one) for one in json.loads(text)] for text in texts]
