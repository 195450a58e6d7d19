"""The folder of a training launch: the arms to run, and the measurements of each rank.

plan.json        model, arms, how many steps
modules/*.py     emitted modules of all arms
rank-<r>.json    measurements of rank r, one record for each arm and purpose
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overlayccl_core.backends.plan import MODULES, PLAN_FILE
from overlayccl_core.configuration.models import Model
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.problem import Direction
from overlayccl_core.tables.plain import of_data, rebuilt


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSite:
    """A module at a site of the step, with the Case and direction to run."""

    site: str
    direction: Direction
    module: str
    case: str
    deployed: bool  # the module is a deployed file, not an emitted one
    early: bool  # its Program starts a collective before its last read
    members: tuple[tuple[int, ...], ...]  # global ranks of the groups
    shapes: tuple[tuple[tuple[str | int, ...], tuple[int, ...]], ...]  # shapes of the outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of running the step, its batch split into `microbatches`: with modules, or the framework's own."""

    name: str
    microbatches: int
    sites: tuple[ArmSite, ...] = ()
    purposes: tuple[Purpose, ...] = (Purpose.TIMED,)
    weighed: bool = True  # its memory is counted in the first launch, which takes more steps

    @property
    def label(self) -> str:
        """The name in messages: `developer, M=8`."""
        return f"{self.name}, M={self.microbatches}"


SLOW = 2.0  # times as long as the fastest: beyond any noise, so few steps suffice


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """The numbers of steps in a launch.

    Attributes:
        seconds: Time for timed steps; their number follows. An arm SLOW times as long as the fastest gets
            minimum_steps.
        in_turns: Whether steps of other purposes (quiet, idle, waited) take turns with the timed ones, in every
            launch, as many of each; else a few come after them, in the first launch.
    """

    seconds: float
    minimum_steps: int
    maximum_steps: int
    in_turns: bool = False
    loss_steps: int = 0
    loss_seeds: tuple[int, ...] = ()  # empty if losses are not compared


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The content of plan.json. The launch's number seeds data and the order of arms.

    inspects: Whether the launch inspects a step of every arm; one does, as another would find the same.
    """

    launch: int
    ranks: int
    model: Model
    settings: StepSettings
    arms: tuple[Arm, ...]
    inspects: bool = True

    def write(self, folder: Path, sources: Mapping[str, str]) -> None:
        """Write the plan and the modules (`sources`: name -> text) into a folder."""
        (folder / MODULES).mkdir(parents=True)
        for name, source in sources.items():
            (folder / name).write_text(source)
        (folder / PLAN_FILE).write_text(json.dumps(asdict(self), default=_plain))

    @classmethod
    def read(cls, folder: Path) -> "TrainingPlan":
        """Read the plan of a folder."""
        data = json.loads((folder / PLAN_FILE).read_text())
        settings = of_data(StepSettings, data["settings"])
        arms = of_data(tuple[Arm, ...], data["arms"])
        return cls(**{**data, "model": Model.from_data(data["model"]), "settings": settings, "arms": arms})


def _plain(value: Any) -> Any:
    """The fields of a Model, for JSON (it is no dataclass)."""
    if isinstance(value, Model):
        return value.model_dump(mode="json")
    raise TypeError(f"a plan holds no {type(value).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The counts of one step of an arm on this rank, taken while it ran."""

    matmuls: int
    matmul_digest: str  # digest of the shapes of all matrix products, in any order
    collectives: int  # calls of the library
    calls: tuple[tuple[str, int], ...]  # (site, calls)
    programs: tuple[tuple[str, str], ...]  # (site, digest), as told by the modules run
    library_version: str  # this rank's
    peak_memory_bytes: int | None  # None: not counted
    gradient_rel_error: float  # the worst parameter's, against the unsharded model


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """One rank's measurements of an arm for one purpose: start and end (ns) of every step, the cold ones first."""

    arm: int
    purpose: Purpose
    seed: int
    cold: int
    starts_ns: tuple[int, ...]
    ends_ns: tuple[int, ...]
    losses: tuple[float, ...]
    validation_loss: float | None = None
    inspection: Inspection | None = None


def write_records(folder: Path, rank: int, records: Sequence[RankRecord]) -> None:
    """Write the records of a rank."""
    (folder / f"rank-{rank}.json").write_text(json.dumps([asdict(one) for one in records]))


def read_records(folder: Path, ranks: int) -> list[list[RankRecord]]:
    """Read the records, [rank][entry], with the same arms and purposes on every rank."""
    texts = [(folder / f"rank-{rank}.json").read_text() for rank in range(ranks)]
    return [rebuilt(list[RankRecord], text) for text in texts]
