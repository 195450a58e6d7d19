"""Courses: many steps of an arm from one seed, each in launches of its own, to compare losses.

All arms begin with the same parameters and read the same data. The developer's arm also runs from more seeds; the
spread of its losses is the measure for the others. Knows no choice: whoever wants losses gives the arms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core.configuration.longrun import LongrunSection
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.progress import OneOfMany
from overlayccl_core.training.launches import Training, train
from overlayccl_core.training.plan import Arm, StepSettings

Row = dict[str, Any]
UNTIMED = StepSettings(seconds=0.0, minimum_steps=0, maximum_steps=0)


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
            settings=replace(UNTIMED, loss_steps=steps, loss_seeds=(self.seed,)),
        )


def train_courses(
    whole: Training,
    asked: LongrunSection,
    partial_dir: Path,
    batch_name: str,
    code: str,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of all courses of the arms in `whole`; a finished course is kept in `partial_dir`.

    Args:
        batch_name: Beginning of the names of the courses' folders.
        code: Digest of the code of the rule.
    """
    courses = list(_courses(whole.arms, asked.seeds))
    rows: list[Row] = []
    for number, course in enumerate(courses):
        said = OneOfMany(
            progress=progress,
            name=f"{course.arm.label}, seed {course.seed} ({number + 1} of {len(courses)})",
            before=number * asked.steps,
            total=len(courses) * asked.steps,
        )
        folder = course_folder(batch_name, course.arm.name, course.seed)
        made = train(course.training(whole, asked.steps), partial_dir, folder, code, said)
        rows += [{**row, "launch": number, "seed": course.seed} for row in made]
    return rows


def course_folder(batch_name: str, arm: str, seed: int) -> str:
    """Return the prefix of a course's folder."""
    return f"{batch_name}-{arm}-{seed}"


def _courses(arms: tuple[Arm, ...], seeds: int) -> Iterator[_Course]:
    """Yield every arm from seed 0 on, then the developer's from the other seeds."""
    yield from (_Course(arm=arm, seed=0) for arm in arms)
    yield from (
        _Course(arm=arm, seed=seed)
        for arm in arms
        if arm.name == ArmName.DEVELOPER
        for seed in range(1, seeds)
    )
