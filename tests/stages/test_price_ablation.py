"""What parts of the cost model are worth, where it is known what calls take."""

from types import SimpleNamespace
from typing import Any

import pytest

from overlayccl_core.configuration.sections import FitSection
from overlayccl_core.costmodel.features import Term
from overlayccl_core.evidence.benched import benched, floor_of, model_choice, ranked
from overlayccl_core.evidence.predictions import predictions
from overlayccl_core.stages import price_ablation
from overlayccl_core.tables.price_ablations import PRICE_ABLATIONS
from overlayccl_core.tables.table import write
from tests.stages.flow import quiet

SECTION = FitSection(bootstraps=2, ridge=0.02, seed=0)


@pytest.fixture(scope="module")
def rows(tp_flow: SimpleNamespace) -> dict[tuple[str, str], dict[str, Any]]:
    made = price_ablation.run(SECTION, tp_flow.probes, tp_flow.shortlisted, tp_flow.bench, progress=quiet)
    frame = write(PRICE_ABLATIONS, made, tp_flow.folder / "price_ablations.parquet")
    return {(row["without"], row["judged_on"]): row for row in frame.iter_rows(named=True)}


def test_each_part_is_left_out_once_and_judged_twice(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    """On one node there is no network, and no tier to leave out."""
    parts = {"nothing", *(term.value for term in Term)} - {Term.NETWORK.value}
    assert rows.keys() == {(part, on) for part in parts for on in ("heldout", "candidates")}


def test_the_whole_model_is_the_one_of_the_run(
    rows: dict[tuple[str, str], dict[str, Any]], tp_flow: SimpleNamespace
) -> None:
    heldout, candidates = (rows["nothing", on] for on in ("heldout", "candidates"))
    (judged,) = tp_flow.judged.iter_rows(named=True)
    whole = tp_flow.compared.row(0, named=True)
    for name in ("n", "median_rel_error", "pair_accuracy", "pairs", "repeat_rel_error"):
        assert heldout[name] == pytest.approx(judged[name]), name
        assert candidates[name] == pytest.approx(whole[name]), name
    assert heldout["top1_regret"] is heldout["mean_regret"] is None


def test_without_its_collectives_prices_order_and_choice_get_worse(
    rows: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for on in ("heldout", "candidates"):
        whole, part = rows["nothing", on], rows[Term.COLLECTIVES.value, on]
        assert part["median_rel_error"] > 3 * whole["median_rel_error"]
        assert part["pair_accuracy"] < whole["pair_accuracy"]
    regrets = [rows[part, "candidates"]["mean_regret"] for part in ("nothing", Term.COLLECTIVES.value)]
    assert regrets[0] < regrets[1]


def test_the_models_choice_is_the_cheapest_by_price(tp_flow: SimpleNamespace) -> None:
    """However many calls it has, and however near the next one is."""
    predicted = predictions(tp_flow.prices, tp_flow.candidates)
    for place, listed in benched(tp_flow.shortlisted, tp_flow.bench, floor_of(tp_flow.probes)).items():
        us = {
            one.candidate: predicted[(*place, one.program.digest)].us for one in ranked(listed, lossy=False)
        }
        first = model_choice(place, listed, predicted)
        assert first is not None and len(us) > 2 and us[first.candidate] == min(us.values())
