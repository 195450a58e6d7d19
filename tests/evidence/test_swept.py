"""Arms of a model by M: odd steps choose what is best, even ones say its time and what it is held against."""

from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.evidence.swept import swept_rows, wrong_splits
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS
from overlayccl_core.tables.table import write
from tests.evidence.test_confirmed import HELD, QUICK, tables
from tests.fake_timings import FINGERPRINT

TRAINED = {m: {arm: us for arm, us in arms.items() if arm != "deployed"} for m, arms in QUICK.items()}


def splits(folder: Path, odd: tuple[int, str, float] | None = None) -> pl.DataFrame:
    """odd: the odd steps of an arm take another time."""
    steps, stamps = tables(folder, TRAINED)
    if odd:
        m, arm, us = odd
        mine = (pl.col("microbatches") == m) & (pl.col("arm") == arm) & (pl.col("steps_us").list.len() > 0)
        others = pl.col("steps_us").list.eval(
            pl.when(pl.int_range(pl.len()) % 2 == 1).then(us).otherwise(pl.element())
        )
        steps = steps.with_columns(pl.when(mine).then(others).otherwise("steps_us").alias("steps_us"))
    rows = swept_rows("nano", steps, stamps, FINGERPRINT)
    return write(SWEPT_SPLITS, rows, folder / "swept_splits.parquet")


def test_each_arm_is_held_against_developer_at_its_m_and_at_1(tmp_path: Path) -> None:
    row = splits(tmp_path).filter(microbatches=8, arm="finalist_1").row(0, named=True)
    assert row["gain"] == pytest.approx(9000 / 2000, rel=0.02)
    assert row["over_whole"] == pytest.approx(1680 / 2000, rel=0.02)
    assert row["over_rival"] == pytest.approx(1320 / 2000, rel=0.02)
    assert row["low_us"] < row["step_us"] < row["high_us"] and row["needs_search"]
    assert row["peak_memory_bytes"] == HELD[8]


def test_developers_own_has_no_gain_over_itself(tmp_path: Path) -> None:
    frame = splits(tmp_path).filter(arm="developer").sort("microbatches")
    assert frame["gain"].null_count() == 2
    assert frame["over_whole"].to_list() == [None, pytest.approx(1680 / 9000, rel=0.02)]


def test_one_split_is_the_best_and_one_of_people_its_rival(tmp_path: Path) -> None:
    frame = splits(tmp_path)
    at = "microbatches", "arm"
    assert frame.filter("best").select(at).rows() == [(1, "finalist_1")]
    assert frame.filter("rival").select(at).rows() == [(1, "best_known_way")]


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [("gradient_rel_error", 0.3, "a gradient is 0.3"), ("matmuls", 3, "multiplies other matrices")],
)
def test_a_step_that_is_not_developers_is_left_out_and_named(
    column: str, value: float, why: str, tmp_path: Path
) -> None:
    steps, stamps = tables(tmp_path, TRAINED)
    mine = (pl.col("microbatches") == 1) & (pl.col("arm") == "finalist_1") & pl.col(column).is_not_null()
    steps = steps.with_columns(
        pl.when(mine).then(pl.lit(value, steps[column].dtype)).otherwise(column).alias(column)
    )
    (((microbatches, arm), said),) = wrong_splits("nano", steps, stamps).items()
    assert (microbatches, arm) == (1, "finalist_1") and why in said
    rows = swept_rows("nano", steps, stamps, FINGERPRINT)
    assert (1, "finalist_1") not in {(row["microbatches"], row["arm"]) for row in rows}
    assert [row["arm"] for row in rows if row["best"]] == ["best_known_way"]


def test_what_is_lucky_in_odd_steps_is_the_best_and_its_time_is_that_of_even_ones(tmp_path: Path) -> None:
    usual = splits(tmp_path).filter(microbatches=8, arm="hand_bundled")
    [best] = splits(tmp_path, odd=(8, "hand_bundled", 100.0)).filter("best").iter_rows(named=True)
    assert (best["microbatches"], best["arm"]) == (8, "hand_bundled")
    assert best["step_us"] == usual["step_us"][0] > 2000
