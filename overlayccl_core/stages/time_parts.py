"""time_parts: training steps of the arms between the developer's calls and the deployed ones of one model.

All arms are in every launch. Launches are added until the interval of the whole gain is narrow, up to a limit.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.sections import DecomposeSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.parts import Step, whole_of
from overlayccl_core.measuring.effects import half_width
from overlayccl_core.measuring.purposes import EARLY_STEPS, Purpose
from overlayccl_core.tables.decompose import PART_ARMS, PART_STAMPS, PART_STEPS, PartRole
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import StepSettings
from overlayccl_core.training.roster import Roster

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables part_steps and part_stamps of one model."""
    name = job.option("model")
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        load_model(name),
        job.read(PART_ARMS),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({PART_STEPS: tables["part_steps"], PART_STAMPS: tables["part_stamps"]})
    forget(job.partial, batch_name(name), job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    model: Model,
    arms: pl.DataFrame,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `part_steps` and `part_stamps`; none without arms. arms: the table `part_arms`."""
    if arms.is_empty():
        return {"part_steps": [], "part_stamps": []}
    asked = settings.decompose
    roster = Roster(model, deployment, backend_of(deployment), arms.iter_rows(named=True))
    for (microbatches,), here in arms.group_by("microbatches", maintain_order=True):
        names = here["arm"].unique(maintain_order=True).to_list()
        roster.add(int(str(microbatches)), names, lambda _: purposes_of(model))
    training = roster.training(
        steps_of(asked), asked.maximum_launches, enough=_enough(asked, arms, roster.begun, progress)
    )
    trained = train(training, Path(partial_dir), batch_name(model.name), code, progress)
    stamps = roster.stamps(trained)
    return {"part_steps": trained, "part_stamps": stamps}


def purposes_of(model: Model) -> tuple[Purpose, ...]:
    """Return an arm's purposes; losses of timed steps differ where a model decides (`Model.decides`)."""
    return (Purpose.TIMED, Purpose.LOSS) if model.decides else (Purpose.TIMED,)


def steps_of(settings: DecomposeSection) -> StepSettings:
    """Return the numbers of steps."""
    return StepSettings(
        seconds=settings.seconds,
        minimum_steps=settings.minimum_steps,
        maximum_steps=settings.maximum_steps,
        loss_steps=EARLY_STEPS,
        loss_seeds=(0,),
    )


def batch_name(model: str) -> str:
    """Return the prefix of a model's launch folders."""
    return f"decompose-{model}"


def _enough(
    asked: DecomposeSection, arms: pl.DataFrame, begun: Sequence[Row], progress: Callable[[str], None]
) -> Callable[[Sequence[Row]], bool]:
    """Whether launches suffice: as many as asked, and the whole gain is known as well as asked."""
    ran_as = {(row["microbatches"], row["arm"]): row["ran_as"] for row in begun}
    developer, deployed = (_side(arms, role, ran_as) for role in (PartRole.DEVELOPER, PartRole.DEPLOYED))

    def enough(rows: Sequence[Row]) -> bool:
        launches = len({row["launch"] for row in rows})
        whole = whole_of(rows, developer, deployed)
        half = None if whole is None else half_width(whole)
        if half is not None:
            progress(f"after {launches} launches the whole is {whole}, half of its interval {half:.1%}")
        return launches >= asked.minimum_launches and half is not None and half <= asked.half_width

    return enough


def _side(arms: pl.DataFrame, role: PartRole, ran_as: dict[Step, str]) -> Step:
    row = arms.filter(pl.col("role") == role).row(0, named=True)
    step = row["microbatches"], row["arm"]
    return step[0], ran_as[step]
