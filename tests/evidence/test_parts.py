"""The gain of a model in its parts: planted speeds come back, wrong arms do not count, the page says it first."""

import polars as pl
import pytest

from overlayccl_core.evidence.part_arms import compared
from overlayccl_core.evidence.parts import Decomposition, PartTables, decomposition, part_rows, whole_of
from overlayccl_core.measuring.effects import FactorEffect
from overlayccl_core.report.parts import page, sentence
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.tables.decompose import PARTS
from tests.evidence.parts_made import AT_TWO, LAUNCHES, MODEL, arms_of, frame, splits, steps_of

EXCHANGED = Recipe(base="all_to_all_sum")
B, M, P = (frozenset({one}) for one in ("boundary", "merge", "primitive"))
GAINS = {B: 1.2, B | M: 1.5, P: 1.1}  # merging needs the boundary gone
SIDES = compared(MODEL.name, AT_TWO)


def made(**wrong: dict[str, object]) -> Decomposition:
    arms = arms_of(EXCHANGED)
    steps, stamps = steps_of(arms, GAINS, **wrong)
    return decomposition(SIDES, PartTables(arms=arms, steps=steps, stamps=stamps).of(MODEL.name))


def ratio(one: Decomposition, effect: FactorEffect, *factors: str) -> float:
    return next(t.ratio.value for t in one.told if (t.effect, t.factors) == (effect, factors))


def test_planted_gains_come_back_and_add_up() -> None:
    one = made()
    assert one.without == "" and one.launches == LAUNCHES and not one.disturbed
    assert ratio(one, FactorEffect.WHOLE, "boundary", "merge", "primitive") == pytest.approx(1.98, rel=0.03)
    assert ratio(one, FactorEffect.PART, "boundary") == pytest.approx(1.2 * 1.5**0.5, rel=0.03)
    assert ratio(one, FactorEffect.PART, "merge") == pytest.approx(1.5**0.5, rel=0.03)
    assert ratio(one, FactorEffect.PART, "primitive") == pytest.approx(1.1, rel=0.03)
    assert ratio(one, FactorEffect.ALONE, "merge") == pytest.approx(1, rel=0.03)
    assert ratio(one, FactorEffect.TOGETHER, "boundary", "merge") == pytest.approx(1.5, rel=0.05)
    rows = frame(PARTS, part_rows(one, "here"))
    parts = rows.filter(effect="part")
    assert parts["ratio"].log().sum() == pytest.approx(rows.filter(effect="whole")["ratio"].log().sum())
    assert parts["share"].sum() == pytest.approx(1)
    assert all(
        low < ratio < high for low, ratio, high in rows.select("ratio_low", "ratio", "ratio_high").iter_rows()
    )


def test_an_arm_with_wrong_gradients_counts_for_nothing() -> None:
    one = made(with_merge={"gradient_rel_error": 0.5})
    assert not one.told and "with merge of nano m2 does not count" in one.without
    assert "nothing to split" in sentence(one, 0.05)


def test_an_arm_that_failed_is_named() -> None:
    one = made(with_merge={"status": "crashed", "message": "rank 1 died", "steps_us": []})
    assert not one.told and "rank 1 died" in one.without


def test_other_load_in_most_launches_is_said_and_no_gain_is_told() -> None:
    one = made(with_merge={"disturbed": True})
    assert one.disturbed and "show nothing" in sentence(one, 0.05)


def test_the_whole_so_far_is_that_of_the_tables() -> None:
    steps, _ = steps_of(arms_of(EXCHANGED), GAINS)
    rows = list(steps.iter_rows(named=True))
    developer, deployed = (2, "developer"), (2, "with_boundary_and_merge_and_primitive")
    assert whole_of(rows, developer, deployed) == made().told[0].ratio
    assert whole_of([r for r in rows if r["arm"] == "developer"], developer, deployed) is None


def test_the_sentence_has_the_largest_part_first_and_says_when_the_interval_is_wide() -> None:
    said = sentence(made(), 0.05)
    assert said.startswith("nano: what is deployed is 1.9")
    assert said.index("boundary 1.4") < said.index("merge 1.2") < said.index("primitive 1.1")
    assert "wider than" not in said and "of 4 launches" in said
    assert "wider than the 0.1% that were asked for" in sentence(made(), 0.001)


def test_the_page_has_a_figure_and_the_table_of_each_model_or_why_it_has_none() -> None:
    none = decomposition(
        compared("other", splits()),
        PartTables(arms=pl.DataFrame(), steps=pl.DataFrame(), stamps=pl.DataFrame()),
    )
    html = page([made(), none], 0.05, "local")
    assert html.count("nano: where the gain comes from") >= 1 and "<svg" in html
    assert "other: nothing to split" in html
    for word in ("together, beyond what fewer of them give", "share of the whole", "lines of the known way"):
        assert word in html
