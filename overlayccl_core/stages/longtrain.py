"""longtrain: courses (`training/courses.py`) of the arms of one model at the deployed M."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.longrun import LongrunSection
from overlayccl_core.configuration.models import Model, problems_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.choices import ProblemChoice, TrainingTables, choices_of, rows_of
from overlayccl_core.evidence.splits import Split, arms_to_confirm, chosen_as, chosen_split, splits_of
from overlayccl_core.measuring.arms import ArmName, arms_of
from overlayccl_core.measuring.figures import figures
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.longrun import LONG_STAMPS, LONG_STEPS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.courses import UNTIMED, course_folder, train_courses
from overlayccl_core.training.roster import Roster

Row = dict[str, Any]
LOSSES_ALONE = (Purpose.LOSS,)


def main(job: RuleJob) -> None:
    """Write the tables long_steps and long_stamps of one model."""
    name = job.option("model")
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        choices_of(job),
        load_model(name),
        TrainingTables(steps=job.read(STEPS), stamps=job.read(STAMPS)),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({LONG_STEPS: tables["long_steps"], LONG_STAMPS: tables["long_stamps"]})
    for row in tables["long_steps"]:
        forget(job.partial, course_folder(batch_name(name), row["arm"], row["seed"]), job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    problems: Mapping[str, ProblemChoice],
    model: Model,
    trained: TrainingTables,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `long_steps` and `long_stamps`. problems: at the model's sites; trained: this model's.

    Raises:
        ValueError: The text to train on is missing, or the developer's arm fails.
    """
    frames: dict[str | Path, Any] = {f"{name}: finalists": one.finalists for name, one in problems.items()}
    one_fingerprint({**frames, "steps": trained.steps}, "the rules bench and train")
    asked = settings.longrun
    asked.check(model, deployment.ranks)
    splits = splits_of(model.name, trained.steps, trained.stamps)
    chosen = chosen_as(model.name, (decided.choice for decided in problems.values()))
    arms = _arms(deployment, problems, asked.on_its_text(model), splits, chosen)
    whole = arms.training(UNTIMED, launches=1)
    progress(expected([arm.name for arm in whole.arms], asked, splits, chosen, whole.arms[0].microbatches))
    rows = train_courses(whole, asked, Path(partial_dir), batch_name(model.name), code, progress)
    return {"long_steps": rows, "long_stamps": arms.stamps(rows)}


def batch_name(model: str) -> str:
    """Return the beginning of the names of a model's courses."""
    return f"longtrain-{model}"


def expected(
    arms: Sequence[str],
    asked: LongrunSection,
    splits: Iterable[Split],
    chosen: Mapping[int, str],
    microbatches: int,
) -> str:
    """Say how long the courses take, by the steps of the launches that chose.

    Args:
        arms: Of the courses, at so many microbatches.
        splits: What was trained. chosen: microbatches -> the arm of the choice.
    """
    us = {one.arm: one.us for one in splits if one.microbatches == microbatches}
    ran_as = {ArmName.DEPLOYED.value: chosen.get(microbatches, "")}
    courses = [*arms, *[ArmName.DEVELOPER.value] * (asked.seeds - 1)]
    # an arm without steps of its own has the same modules as another: at most the slowest
    each = [us.get(ran_as.get(arm, arm), max(us.values(), default=0.0)) for arm in courses]
    minutes = sum(each) * asked.steps / 60e6
    return (
        f"{len(courses)} courses of {asked.steps:,} steps, one after another: about {figures(minutes)} minutes, by "
        "the steps of the training launches. A finished course is kept"
    )


def _arms(
    deployment: Deployment,
    problems: Mapping[str, ProblemChoice],
    model: Model,
    splits: Sequence[Split],
    chosen: Mapping[int, str],
) -> Roster:
    """Return the arms at the deployed M: the deployed files, and the arms that `confirm` times beside them.

    The arm they were chosen as is left out: it runs the same Programs. The developer's is always there.
    """
    rows = [row for decided in problems.values() for row in rows_of(decided)]
    arms = Roster(model, deployment, backend_of(deployment), rows)
    deployed = chosen_split(chosen, splits)
    microbatches = model.loss_microbatches if deployed is None else deployed.microbatches
    wanted = {*arms_to_confirm(chosen, splits).get(microbatches, ())} - {chosen.get(microbatches)} | {
        ArmName.DEVELOPER
    }
    plainest_first = arms_of(problems_of(model, deployment.ranks))
    arms.add(microbatches, [one for one in plainest_first if one in wanted], lambda _: LOSSES_ALONE)
    arms.add_deployed(microbatches, {name: decided.module for name, decided in problems.items()})
    arms.add_framework(microbatches, wanted)
    arms.arms = [replace(arm, purposes=LOSSES_ALONE) for arm in arms.arms]
    return arms
