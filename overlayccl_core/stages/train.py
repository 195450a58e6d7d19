"""train: the finalists of a model's Problems and all baseline arms, in real training steps on real ranks."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, problems_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.measuring.arms import BASELINES, ArmName, arms_of
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import StepSettings
from overlayccl_core.training.roster import Roster

NOT_COMPARED_BY_LOSS = frozenset(BASELINES) - {ArmName.DEVELOPER}
NARROWS = True  # what the first launches find far behind is in no other (`training/left_behind.py`)
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables steps and stamps of one model."""
    name = job.option("model")
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        load_model(name),
        {problem: job.read(FINALISTS, problem) for problem in job.problems},
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({STEPS: tables["steps"], STAMPS: tables["stamps"]})
    forget(job.partial, batch_name(name), job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    model: Model,
    finalists: Mapping[str, pl.DataFrame],
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `steps` and `stamps`. finalists: of every Problem at the model's sites."""
    one_fingerprint({f"{name}: finalists": frame for name, frame in finalists.items()}, "the rule bench")
    arms = arms_to_train(deployment, model, finalists)
    training = arms.training(steps_of(settings), settings.train.launches, narrows=NARROWS)
    trained = train(training, Path(partial_dir), batch_name(model.name), code, progress)
    stamps = arms.stamps(trained)
    return {"steps": trained, "stamps": stamps}


def arms_to_train(deployment: Deployment, model: Model, finalists: Mapping[str, pl.DataFrame]) -> Roster:
    """Return all arms of a model to train, from the tables `finalists` of its Problems."""
    rows = [row for frame in finalists.values() for row in frame.iter_rows(named=True)]
    arms = Roster(model, deployment, backend_of(deployment), rows)
    names = arms_of(problems_of(model, deployment.ranks))
    for microbatches in model.microbatches:
        arms.add(microbatches, names, partial(_purposes, model, microbatches))
        arms.add_framework(microbatches)
    return arms


def steps_of(settings: Settings) -> StepSettings:
    """Return the numbers of steps."""
    return StepSettings(
        seconds=settings.train.seconds,
        minimum_steps=settings.train.minimum_steps,
        maximum_steps=settings.train.maximum_steps,
        loss_steps=settings.train.loss_steps,
        loss_seeds=tuple(range(settings.train.loss_seeds)),
    )


def _purposes(model: Model, microbatches: int, arm: str) -> tuple[Purpose, ...]:
    """Return the purposes of an arm; the model's own time, without communication, is that of the developer's.

    Timed steps have losses, too; those of a model that decides differ with the last bit (`Model.decides`).
    """
    compared = microbatches == model.loss_microbatches and arm not in NOT_COMPARED_BY_LOSS
    quiet = (Purpose.QUIET,) if arm == ArmName.DEVELOPER else ()
    losses = (Purpose.LOSS,) if compared or model.decides else ()
    return (Purpose.TIMED, *quiet, *losses)


def batch_name(model: str) -> str:
    """Return the prefix of a model's launch folders."""
    return f"train-{model}"
