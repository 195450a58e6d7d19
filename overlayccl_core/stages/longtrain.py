"""longtrain: many steps of the arms of one model at the deployed M, each in launches of its own.

All arms begin with the same parameters and read the same data. The developer's arm also runs from more seeds; the
spread of its losses is the measure for the others. A finished course is kept until the table is written.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, problems_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.settings import LongrunSection, Settings
from overlayccl_core.evidence.choices import ProblemChoice, Trained, choices_of, rows_of
from overlayccl_core.evidence.splits import beside, chosen_as, chosen_split, splits_of
from overlayccl_core.measuring.arms import ArmName, arms_of
from overlayccl_core.measuring.progress import OneOfMany
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.longrun import LONG_STAMPS, LONG_STEPS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.arms import Arms
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.plan import Arm, StepSettings

Row = dict[str, Any]
LOSSES_ALONE = (Purpose.LOSS,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """An arm from one seed on."""

    arm: Arm
    seed: int

    def training(self, whole: Training, steps: int) -> Training:
        """Return its launch alone, without other arms and their modules."""
        return replace(
            whole,
            arms=(self.arm,),
            sources={site.module: whole.sources[site.module] for site in self.arm.sites},
            settings=StepSettings(
                seconds=0.0, minimum_steps=0, maximum_steps=0, loss_steps=steps, loss_seeds=(self.seed,)
            ),
        )


def main(job: RuleJob) -> None:
    """Write the tables long_steps and long_stamps of one model."""
    name = job.option("model")
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        choices_of(job),
        load_model(name),
        Trained(steps=job.read(STEPS), stamps=job.read(STAMPS)),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({LONG_STEPS: tables["long_steps"], LONG_STAMPS: tables["long_stamps"]})
    for row in tables["long_steps"]:
        forget(job.partial, partial_rule(name, row["arm"], row["seed"]), job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    problems: Mapping[str, ProblemChoice],
    model: Model,
    trained: Trained,
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
    arms = _arms(deployment, problems, asked.on_its_text(model), trained)
    whole = arms.training(StepSettings(seconds=0.0, minimum_steps=0, maximum_steps=0), launches=1)
    courses = list(_courses(whole.arms, asked))
    rows: list[Row] = []
    for number, course in enumerate(courses):
        said = OneOfMany(
            progress=progress,
            name=f"{course.arm.label}, seed {course.seed} ({number + 1} of {len(courses)})",
            before=number * asked.steps,
            total=len(courses) * asked.steps,
        )
        rule = partial_rule(model.name, course.arm.name, course.seed)
        made = train(course.training(whole, asked.steps), Path(partial_dir), rule, code, said)
        rows += [{**row, "launch": number, "seed": course.seed} for row in made]
    stamps = arms.stamps(rows)
    return {"long_steps": rows, "long_stamps": stamps}


def partial_rule(model: str, arm: str, seed: int) -> str:
    """Return the prefix of a course's folder."""
    return f"longtrain-{model}-{arm}-{seed}"


def _arms(
    deployment: Deployment, problems: Mapping[str, ProblemChoice], model: Model, trained: Trained
) -> Arms:
    """Return the arms at the deployed M: the deployed files, and the arms that `confirm` times beside them.

    The arm they were chosen as is left out: it runs the same Programs. The developer's is always there.
    """
    rows = [row for decided in problems.values() for row in rows_of(decided)]
    arms = Arms(model, deployment, backend_of(deployment), rows)
    splits = splits_of(model.name, trained.steps, trained.stamps)
    chosen = chosen_as(model.name, (decided.choice for decided in problems.values()))
    deployed = chosen_split(chosen, splits)
    microbatches = model.loss_microbatches if deployed is None else deployed.microbatches
    wanted = {*beside(chosen, splits).get(microbatches, ())} - {chosen.get(microbatches)} | {
        ArmName.DEVELOPER
    }
    plainest_first = arms_of(problems_of(model, deployment.ranks))
    arms.add(microbatches, [one for one in plainest_first if one in wanted], lambda _: LOSSES_ALONE)
    arms.add_deployed(microbatches, {name: decided.module for name, decided in problems.items()})
    arms.add_framework(microbatches, wanted)
    arms.arms = [replace(arm, purposes=LOSSES_ALONE) for arm in arms.arms]
    return arms


def _courses(arms: tuple[Arm, ...], asked: LongrunSection) -> Iterator[_Course]:
    """Yield every arm from seed 0 on, then the developer's from the other seeds."""
    yield from (_Course(arm=arm, seed=0) for arm in arms)
    yield from (
        _Course(arm=arm, seed=seed)
        for arm in arms
        if arm.name == ArmName.DEVELOPER
        for seed in range(1, asked.seeds)
    )
