"""Rule time_parts on real ranks: all arms in every launch, launches as many as it takes, equal Programs once."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration import models
from overlayccl_core.configuration.settings import read
from overlayccl_core.evidence.part_arms import compared
from overlayccl_core.evidence.parts import PartTables, decomposition
from overlayccl_core.measuring.effects import FactorEffect
from overlayccl_core.measuring.purposes import EARLY_STEPS
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.stages import time_parts
from overlayccl_core.tables.decompose import PART_ARMS, PART_STAMPS, PART_STEPS
from overlayccl_core.tables.table import write
from tests.evidence.parts_made import AT_TWO, DEPLOYMENT, MODEL, arms_of
from tests.timing.batches import silent

ARMS = arms_of(Recipe(base="reduce_scatter_all_gather"))
QUICK = read()
QUICK = QUICK.changed(
    decompose=QUICK.decompose.changed(
        seconds=0.3, minimum_steps=2, maximum_steps=3, minimum_launches=1, maximum_launches=3, half_width=1e-9
    )
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> PartTables:
    folder = tmp_path_factory.mktemp("parts")
    made = time_parts.run(DEPLOYMENT, QUICK, MODEL, ARMS, folder / ".partial", progress=silent)
    return PartTables(
        arms=ARMS,
        steps=write(PART_STEPS, made["part_steps"], folder / "part_steps.parquet"),
        stamps=write(PART_STAMPS, made["part_stamps"], folder / "part_stamps.parquet"),
    )


@pytest.mark.ranks
def test_launches_are_added_up_to_the_limit_and_all_arms_are_in_each(tables: PartTables) -> None:
    ran = tables.steps.group_by("launch").agg(pl.col("arm").sort()).sort("launch")
    assert ran["launch"].to_list() == [0, 1, 2] and ran["arm"].n_unique() == 1
    equal = tables.stamps.filter(pl.col("arm") != pl.col("ran_as")).select("arm", "ran_as").unique()
    assert ("with_merge", "developer") in equal.rows()
    assert set(ran["arm"][0]).isdisjoint(equal["arm"]) and set(tables.steps["status"]) == {"trained"}


@pytest.mark.ranks
def test_their_steps_split_the_gain_and_train_as_the_developers_do(tables: PartTables) -> None:
    one = decomposition(compared(MODEL.name, AT_TWO), tables)
    assert one.without == "" and one.launches == 3 and one.half_width is not None
    whole, *parts = (told for told in one.told if told.effect in (FactorEffect.WHOLE, FactorEffect.PART))
    assert [told.factors for told in parts] == [("boundary",), ("merge",), ("primitive",)]
    product = parts[0].ratio.value * parts[1].ratio.value * parts[2].ratio.value
    assert product == pytest.approx(whole.ratio.value)


def planned(half_width: float, gains: list[float]) -> list[bool]:
    """After each launch, whether launches suffice. gains: of what is deployed, launch by launch."""
    asked = QUICK.decompose.changed(minimum_launches=4, maximum_launches=9, half_width=half_width)
    begun = [{"microbatches": 2, "arm": arm, "ran_as": arm} for arm in ARMS["arm"].unique()]
    enough = time_parts._enough(asked, ARMS, begun, silent)
    rows: list[dict[str, Any]] = []
    said = []
    for launch, gain in enumerate(gains):
        for arm, us in (("developer", 100.0), ("with_boundary_and_merge_and_primitive", 100.0 / gain)):
            rows.append(
                {"microbatches": 2, "arm": arm, "purpose": "timed", "launch": launch, "steps_us": [us] * 3}
            )
        said.append(enough(rows))
    return said


def test_launches_suffice_from_the_least_on_once_the_interval_is_narrow() -> None:
    assert planned(0.05, [1.2] * 5) == [False, False, False, True, True]
    assert planned(0.05, [1.0, 1.4, 1.2, 1.2, 1.2]) == [False] * 5


def test_a_model_that_decides_is_judged_by_losses_under_the_same_decisions() -> None:
    assert time_parts.purposes_of(models.load("nano-moe")) == ("timed", "loss")
    assert time_parts.purposes_of(MODEL) == ("timed",)
    steps = time_parts.steps_of(QUICK.decompose)
    assert steps.loss_seeds and steps.loss_steps == EARLY_STEPS


def test_a_model_with_nothing_to_split_starts_no_ranks(tmp_path: Path) -> None:
    none = pl.DataFrame(schema=PART_ARMS.schema)
    made = time_parts.run(DEPLOYMENT, QUICK, MODEL, none, tmp_path, progress=silent)
    assert made == {"part_steps": [], "part_stamps": []}
