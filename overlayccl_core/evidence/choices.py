"""The choices of a run, read by rules that train or time the deployed files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.measuring.arms import ArmName, at_case
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.rule_job import RuleJob

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemChoice:
    """The choice for a Problem: its tables finalists and choice, and the source of the deployed file."""

    finalists: pl.DataFrame
    choice: pl.DataFrame
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTables:
    """Steps and stamps of training, of all models: the basis for training an arm again."""

    steps: pl.DataFrame
    stamps: pl.DataFrame


def choices_of(job: RuleJob) -> dict[str, ProblemChoice]:
    """Return the choice for each of the option `problems`, for a rule that trains or times it again."""
    return {
        problem: ProblemChoice(
            finalists=job.read(FINALISTS, problem),
            choice=job.read(CHOICE, problem),
            module=job.file("chosen", problem).read_text(),
        )
        for problem in job.problems
    }


def rows_of(decided: ProblemChoice) -> list[Row]:
    """Return the rows of `finalists`, and a row of the deployed Program at each Case and direction."""
    return arm_rows(decided.finalists, decided.choice)


def arm_rows(finalists: pl.DataFrame, choices: pl.DataFrame) -> list[Row]:
    """Return the rows of `finalists` and of the arm `deployed`, from a Problem's tables finalists and choice."""
    listed = list(finalists.iter_rows(named=True))
    deployed = []
    for choice in choices.iter_rows(named=True):
        here = {r["arm"]: r for r in listed if all(r[k] == choice[k] for k in ("case", "direction"))}
        mine = at_case(here, choice["arm"], problem_of(choice["case"]))
        assert mine is not None  # it was chosen among these
        deployed.append({**mine, "arm": ArmName.DEPLOYED})
    return [*listed, *deployed]


def deployed_rows(decided: ProblemChoice, placed: Mapping[Place, str]) -> dict[Place, Row]:
    """Return (case, direction) -> the row for the file there; no entry if the framework's own way is kept.

    placed: arms in place of the chosen ones (`standing.placed`).
    """
    rows: dict[Place, dict[str, Row]] = {}
    for one in rows_of(decided):
        rows.setdefault(place_of(one), {})[one["arm"]] = one
    return {
        place: row
        for place, arms in rows.items()
        if ArmName.DEPLOYED in arms
        and (row := at_case(arms, placed.get(place, ArmName.DEPLOYED), problem_of(place[0]))) is not None
    }
