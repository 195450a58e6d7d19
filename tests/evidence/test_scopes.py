"""Arms alone, beside a matmul and in the step: planted times, and where their orders differ."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.evidence.scopes import arms, orders, programs_of_steps
from overlayccl_core.report.scopes import page, sentence
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.scopes import SCOPE_ORDERS, SCOPED_ARMS, SCOPES, TimedScope
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import Table
from tests.rows import row

US = {
    "a": (100.0, 300.0, 900.0),
    "b": (200.0, 200.0, 600.0),
    "c": (300.0, 100.0, 1200.0),
}  # alone, beside, step
OF = {"model": "tiny", "microbatches": 2}


def frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row(table, **one) for one in rows], schema=table.schema)


def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(steps, stamps, scopes) of three arms with a Program at each of two sites, half of the time at each."""
    stamps = [
        {**OF, "arm": arm, "ran_as": arm, "case": f"p/{site}", "direction": "forward", "program": arm + site}
        for arm in US
        for site in "xy"
    ]
    stamps.append({**stamps[0], "arm": "like_a"})
    steps = [
        {**OF, "arm": arm, "purpose": purpose, "launch": launch, "steps_us": [us[2] * k, us[2], us[2] / k]}
        for arm, us in US.items()
        for launch in range(2)
        for purpose, k in (("timed", 1.01), ("quiet", 50.0))
    ]
    scopes = [
        {"program": arm + site, "scope": scope, "samples_us": [us[n] / 2] * 3}
        for arm, us in US.items()
        for site in "xy"
        for n, scope in enumerate(TimedScope)
    ]
    return frame(STEPS, steps), frame(STAMPS, stamps), frame(SCOPES, scopes)


def test_an_arm_takes_what_its_programs_take_at_all_sites() -> None:
    steps, stamps, scopes = tables()
    found = {one["arm"]: one for one in arms(steps, stamps, scopes)}
    assert {arm: (one["alone_us"], one["beside_us"], one["step_us"]) for arm, one in found.items()} == {
        arm: pytest.approx(us, rel=0.02) for arm, us in US.items()
    }
    without = scopes.filter((pl.col("program") != "by") | (pl.col("scope") != TimedScope.BESIDE))
    assert [one["arm"] for one in arms(steps, stamps, without)] == ["a", "c"]


def test_pairs_in_another_order_than_in_the_step_are_counted() -> None:
    steps, *others = tables()
    frame = pl.DataFrame(arms(steps, *others), schema=SCOPED_ARMS.schema)
    alone, beside = orders(frame, steps)
    assert (alone["pairs"], alone["otherwise"], alone["spearman"]) == (3, pytest.approx(1 / 3), 0.5)
    assert (beside["pairs"], beside["otherwise"], beside["spearman"]) == (3, pytest.approx(2 / 3), -0.5)
    assert [(one["fastest"], one["fastest_in_step"]) for one in (alone, beside)] == [("a", "b"), ("c", "b")]
    ordered = pl.DataFrame([alone, beside], schema=SCOPE_ORDERS.schema)
    assert sentence(ordered).startswith("alone: 1 of 3 pairs of arms are in another order than in the step")
    text = page(frame, ordered, "local")
    assert "beside: 2 of 3 pairs" in text and "The choice follows the step." in text and "<svg" in text
    assert 'href="scope_orders.parquet"' in text


def test_each_program_of_a_step_is_timed_once() -> None:
    _, stamps, _ = tables()
    names = stamps.select("case", "direction", "program").unique(maintain_order=True).to_dicts()
    listed = frame(FINALISTS, [{**one, "arm": arm} for one in names for arm in ("developer", "finalist_1")])
    assert programs_of_steps(stamps, listed)["program"].to_list() == [
        one + site for one in US for site in "xy"
    ]
