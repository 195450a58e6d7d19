"""What the end of `snakemake sweep_m` and its page say: which M is the best, and whether the gain grows with M."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.report.blocks import TIMES
from overlayccl_core.report.sweep_m import curve, page, sentence
from overlayccl_core.tables.sweep_m import SWEPT_SPLITS
from tests.rows import row

MIB = 2**20


def ratio(name: str, value: float, half: float = 0.05) -> dict[str, float]:
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def splits(gains: dict[int, float], best: tuple[int, str] = (1, "finalist_1"), **more: Any) -> pl.DataFrame:
    """M -> gain of what was found over developer, which takes 100 ms at every M. more: of the best row."""
    rows = []
    for m, gain in gains.items():
        for arm in ("developer", "finalist_1"):
            us = 1e5 if arm == "developer" else 1e5 / gain
            same = {"model": "nano", "microbatches": m, "arm": arm, "ran_as": arm, "launches": 3}
            of = {"step_us": us, "low_us": us * 0.9, "high_us": us * 1.1, "peak_memory_bytes": 64 * MIB // m}
            found = ratio("gain", gain) if arm == "finalist_1" else {}
            is_best = (m, arm) == best
            of |= {
                "needs_search": arm == "finalist_1",
                "best": is_best,
                "rival": (m, arm) == (1, "developer"),
            }
            rows.append(row(SWEPT_SPLITS, **same, **of, **found | (more if is_best else {})))
    return pl.DataFrame(rows, schema=SWEPT_SPLITS.schema)


def test_the_best_is_held_against_not_splitting_and_against_developer_at_its_m() -> None:
    said = sentence(splits({1: 1.0, 4: 1.5}, best=(4, "finalist_1"), **ratio("over_whole", 1.2)))
    assert said.startswith(
        f"nano: by the odd steps the fastest is finalist 1 at M = 4; by the even ones 66.7 ms (60..73.3): "
        f"1.20{TIMES} (1.15..1.25) as fast as developer's step that is not split at all (M = 1) "
        f"(faster); 1.50{TIMES} (1.45..1.55) as fast as developer's at the same M (faster). "
    )


def test_where_developer_is_the_best_not_split_nothing_is_gained() -> None:
    said = sentence(splits({1: 0.9, 4: 0.95}, best=(1, "developer")))
    assert said.startswith(
        "nano: by the odd steps the fastest is developer at M = 1; by the even ones 100 ms (90..110). The gain"
    )


def test_the_best_of_people_at_another_m_is_named() -> None:
    frame = splits({1: 1.0, 4: 1.5}, best=(4, "finalist_1"), **ratio("over_rival", 0.99))
    bundled = frame.filter(microbatches=1, arm="developer").with_columns(
        arm=pl.lit("hand_bundled"), ran_as=pl.lit("hand_bundled")
    )
    said = sentence(pl.concat([frame.with_columns(rival=pl.lit(False)), bundled]))
    assert (
        f"0.99{TIMES} (0.94..1.04) as fast as the best that needs no search (hand bundled at M = 1)" in said
    )


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({1: 1.0, 2: 1.3, 4: 1.6}, f"grows with M, as published (1.00{TIMES} (0.95..1.05) at M = 1, 1.60"),
        ({1: 1.0, 2: 1.9, 4: 1.6}, "grows with M, as published, but falls from M = 2 to 4 ("),
        ({1: 1.0, 2: 1.03, 4: 1.08}, "does not grow with M beyond noise"),
        ({1: 1.6, 4: 1.0}, "does not grow with M beyond noise"),
        ({4: 1.6}, "Too few M"),
    ],
)
def test_whether_the_published_shape_of_the_curve_appears(gains: dict[int, float], said: str) -> None:
    assert said in curve(splits(gains, best=(min(gains), "finalist_1")))


def test_without_intervals_nothing_is_said_of_the_curve() -> None:
    frame = splits({1: 1.0, 4: 1.6}).with_columns(gain_low=pl.lit(None, pl.Float64()))
    assert curve(frame).startswith("Too few M, or too few steps")


def test_of_a_disturbed_machine_nothing_is_said() -> None:
    disturbed = splits({1: 1.0, 4: 1.6}).with_columns(disturbed=pl.lit(True))
    assert "--forcerun train_splits" in sentence(disturbed)


def test_the_page_has_a_sentence_before_four_figures_of_each_model() -> None:
    frame = splits({1: 1.0, 4: 1.5}, best=(4, "finalist_1"), **ratio("over_whole", 1.2))
    html = page(pl.concat([frame, frame.with_columns(model=pl.lit("mini"))]), "here")
    for model in ("nano", "mini"):
        sentence_at = html.index(f"{model}: by the odd steps the fastest")
        titles = ("step time by M", "over developer at the same M", "over developer&#39;s step at M = 1")
        for title in (*titles, "peak memory of a rank by M"):
            assert html.count(title) and html.index(f"{model}: ", sentence_at)
    assert html.count("<svg") == 2 * 4 * 2  # for a screen and for a phone
