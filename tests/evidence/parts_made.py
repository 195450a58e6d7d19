"""A model between its two sides, made by hand: choices with real recipes, and steps of planted speeds."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import load
from overlayccl_core.evidence.choices import ProblemChoice
from overlayccl_core.evidence.part_arms import compared
from overlayccl_core.measuring.effects import Factors
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.problem import Problem
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.stages.find_parts import PartArms
from overlayccl_core.tables.choice import CHOICE
from overlayccl_core.tables.decompose import PART_ARMS, PART_STAMPS, PART_STEPS
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import Table
from tests.gates.training_evidence import MATMULS
from tests.rows import row

Row = dict[str, Any]
DEPLOYMENT = load("config/deployments/local-2.yaml")
MODEL = models.load("nano").changed(
    layers=1, width=16, hidden=32, heads=2, sequence=8, batch=2, microbatches=(1, 2), loss_microbatches=1
)
LAUNCHES = 4


def frame(table: Table, rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame([row(table, **one) for one in rows], schema=table.schema)


def problems(model: models.Model = MODEL) -> dict[int, list[Problem]]:
    """Count of microbatches -> the Problems at the sites of a step."""
    return {
        m: [catalog.build(case) for case in cases_of_model(model, DEPLOYMENT, m).values()]
        for m in model.microbatches
    }


def decided(recipe: Recipe) -> ProblemChoice:
    """The Programs of a recipe were chosen, as finalist_1, at all Cases."""
    finalists, choice = [], []
    for of in (of for here in problems().values() for of in here):
        arms = {"developer": Recipe(base="developer"), "finalist_1": recipe}
        for arm, one in arms.items():
            program = replay(one, of)
            what = {
                "case": of.case.id, "direction": "forward", "arm": arm, "candidate": one.words,
                "recipe": one.dumps(), "numerics": "reordered", "program": program.digest,
            }  # fmt: skip
            finalists.append({**what, "program_json": dumps(program)})
        choice.append({**what, "value_digest": program.value_digest, "trained_in": None})
    return ProblemChoice(
        finalists=frame(FINALISTS, finalists), choice=frame(CHOICE, choice), module="# a file"
    )


def deployed(instead: str | None = None) -> pl.DataFrame:
    rows = [
        {"case": of.case.id, "direction": "forward", "instead": instead}
        for here in problems().values()
        for of in here
    ]
    return frame(DEPLOYED, rows)


def splits(*arms: tuple[int, str, str, float], ran_as: Mapping[str, str] = {}) -> pl.DataFrame:
    """arms: count of microbatches, arm, part, us of a step."""
    return frame(
        SPLITS,
        [
            {
                "model": MODEL.name, "microbatches": m, "arm": arm, "part": part, "step_us": us,
                "ran_as": ran_as.get(arm, arm),
            }
            for m, arm, part, us in arms
        ],
    )  # fmt: skip


AT_TWO = splits((2, "developer", "beside", 200.0), (2, "deployed", "deployed", 100.0))
M_DIFFERS = splits(
    (1, "developer", "beside", 200.0),
    (2, "developer", "beside", 300.0),
    (2, "deployed", "deployed", 100.0),
)


@cache
def arms_of(recipe: Recipe, *, m_differs: bool = False) -> pl.DataFrame:
    """The table part_arms."""
    made = PartArms(MODEL, DEPLOYMENT, {"tp_mlp": decided(recipe)}, deployed(), None, replay)
    sides = compared(MODEL.name, M_DIFFERS if m_differs else AT_TWO)
    return frame(PART_ARMS, made.rows(sides, lambda _: None))


def steps_of(
    arms: pl.DataFrame, gains: Mapping[Factors, float], **wrong: Mapping[str, Any]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(part_steps, part_stamps): all factors of a set multiply, launches differ. wrong: arm -> columns."""
    random = np.random.default_rng(1)
    steps, stamps, seen = [], [], dict[tuple[int, str], str]()
    ((matmuls, digest),) = MATMULS
    for one in arms.iter_rows(named=True):
        here = one["microbatches"], one["arm"]
        stamps.append(
            {
                "model": one["model"], "microbatches": here[0], "arm": here[1], "ran_as": here[1], "site": "exit",
                "problem": "tp_mlp", **{k: one[k] for k in ("case", "direction", "candidate", "program")},
            }
        )  # fmt: skip
        if here in seen:
            continue
        seen[here] = one["program"]
        mine = frozenset(one["factors"].split(", ")) - {""}
        gain = np.prod([more for some, more in gains.items() if some <= mine])
        for launch in range(LAUNCHES):
            us = 1000 * (1 + launch / 10) / gain * float(np.exp(random.normal(0, 0.01)))
            steps.append(
                {
                    "model": one["model"], "microbatches": here[0], "arm": here[1], "purpose": "timed",
                    "launch": launch, "steps_us": [us] * 3, "losses": [[5.0]], "status": "trained",
                    "gradient_rel_error": 1e-7, "matmuls": matmuls, "matmul_digest": digest,
                    **wrong.get(here[1], {}),
                }
            )  # fmt: skip
    return frame(PART_STEPS, steps), frame(PART_STAMPS, stamps)
