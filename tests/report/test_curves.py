"""The page of long courses: the band of developer's seeds, and the words for arms inside and outside of it."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.curves import curve_rows, loss_rows
from overlayccl_core.report.curves import _band, _windows, page, sentences
from overlayccl_core.tables.longrun import CURVES, LOSSES
from tests.evidence.test_curves import DEVELOPERS, course, told

__all__ = ["told"]  # a fixture
FIVE = [*DEVELOPERS, course("developer", 3), course("developer", 4)]


def tables(made: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables `losses` and `curves` of these courses."""
    steps, stamps, rows = made
    losses = pl.DataFrame(list(loss_rows(steps)), schema=LOSSES.schema)
    return losses, pl.DataFrame(curve_rows(steps, stamps, rows), schema=CURVES.schema)


def test_arms_inside_the_band_are_counted_and_the_farthest_is_named(told: Any) -> None:
    losses, curves = tables(told([*FIVE, course("deployed", change=1e-5), course("ddp_25", change=2e-5)]))
    (said,) = sentences(losses, curves)
    assert "2 of 2 inside the band of developer's 5 seeds (spread of the last losses 0.04)" in said
    assert "The farthest, torch DDP, 25 MiB, is 0." in said and "fail" not in said


def test_an_arm_outside_the_band_is_told_and_not_counted(told: Any) -> None:
    late = course("hand_bundled")
    late["losses"] = [[x + 0.05 * (step > 20) for x in row] for step, row in enumerate(late["losses"])]
    losses, curves = tables(told([*FIVE, course("deployed", change=1e-5), late]))
    (said,) = sentences(losses, curves)
    assert "1 of 2 inside" in said and "hand bundled: fail, its final loss is 0.05 away" in said
    assert "The farthest, hand bundled, is 125% of the spread" in said
    text = page(losses, curves, "local")
    assert len(re.findall(">OUTSIDE<", text)) == 1 and len(re.findall(">inside<", text)) == 1


def test_one_seed_is_no_band_and_nothing_is_inside(told: Any) -> None:
    losses, curves = tables(told([FIVE[0], course("deployed", change=1e-5)]))
    (said,) = sentences(losses, curves)
    assert "no arm was held to a band, with 1 seed of developer's" in said
    assert ">inside<" not in page(losses, curves, "local")


def test_an_arm_that_failed_is_told_with_its_message(told: Any) -> None:
    failed = course(
        "hand_bundled", losses=[], steps_us=[], status="crashed", message="rank 1 died", matmuls=None
    )
    (said,) = sentences(*tables(told([*FIVE, failed])))
    assert "hand bundled: fail, rank 1 died." in said


def test_the_drawn_band_is_of_developers_seeds_alone(told: Any) -> None:
    losses, _ = tables(told([*FIVE, course("deployed", change=5.0)]))
    band = _band(_windows(losses))
    mine = (
        losses.filter(arm="developer")
        .group_by("step")
        .agg(pl.col("loss").quantile(0.25, "linear"))
        .sort("step")
    )
    assert band["low"].to_list() == pytest.approx(mine["loss"].to_list())
    assert (band["least"] <= band["low"]).all() and (band["high"] <= band["most"]).all()
    assert band["most"].max() < losses.filter(arm="deployed")["loss"].max()


def test_a_long_course_is_drawn_by_means_over_windows() -> None:
    rows = [
        {"model": "m", "microbatches": 1, "arm": "developer", "seed": 0, "step": step, "loss": float(step),
         "developer_difference": 0.0, "fingerprint": ""}
        for step in range(2500)
    ]  # fmt: skip
    windows = _windows(pl.DataFrame(rows, schema=LOSSES.schema))
    assert windows.height == 60 and windows["step"].to_list()[-1] == 2499
    assert windows["loss"][0] == pytest.approx(20.5)  # steps 0 to 41


def test_the_page_has_a_figure_of_losses_and_one_of_differences(told: Any, tmp_path: Path) -> None:
    text = page(*tables(told([*FIVE, course("deployed", change=1e-5)])), "local")
    assert "tiny: losses" in text and "tiny: how far the arms are from developer" in text
    assert text.count("<svg") == 4  # for a screen and a phone
