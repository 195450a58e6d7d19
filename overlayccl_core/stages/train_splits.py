"""train_splits: a model's arms at all its numbers of microbatches, in fresh launches that choose nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.sections import SweepMSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH, ArmName
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sweep_m import SWEPT_STAMPS, SWEPT_STEPS
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import StepSettings
from overlayccl_core.training.roster import Roster

SWEPT = (*NEEDS_NO_SEARCH, ArmName.FINALIST_1)
"""Arms of ours: what people write, and what the search and the bench found. No step has chosen any of them."""
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables swept_steps and swept_stamps of one model."""
    name = job.option("model")
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")).sweep_m,
        load_model(name),
        {problem: job.read(FINALISTS, problem) for problem in job.problems},
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({table: tables[table.name] for table in (SWEPT_STEPS, SWEPT_STAMPS)})
    forget(job.partial, batch_name(name), job.all_outputs)


def run(
    deployment: Deployment,
    section: SweepMSection,
    model: Model,
    finalists: Mapping[str, pl.DataFrame],
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `swept_steps` and `swept_stamps`. finalists: of every Problem at the model's sites."""
    one_fingerprint({f"{name}: finalists": frame for name, frame in finalists.items()}, "the rule bench")
    programs = [row for frame in finalists.values() for row in frame.iter_rows(named=True)]
    arms = Roster(model, deployment, backend_of(deployment), programs)
    for microbatches in model.microbatches:
        arms.add(microbatches, SWEPT, lambda _arm: (Purpose.TIMED,))
        arms.add_framework(microbatches)
    steps = StepSettings(
        seconds=section.seconds, minimum_steps=section.minimum_steps, maximum_steps=section.maximum_steps
    )
    trained = train(
        arms.training(steps, section.launches), partial_dir, batch_name(model.name), code, progress
    )
    stamps = arms.stamps(trained)
    return {SWEPT_STEPS.name: trained, SWEPT_STAMPS.name: stamps}


def batch_name(model: str) -> str:
    """Return the prefix of a model's launch folders."""
    return f"train_splits-{model}"
