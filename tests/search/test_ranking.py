"""Searches without the cost model: what they rank Programs by, and that the tables have prices all the same."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core.configuration.searches import Begin, RankedBy, load
from overlayccl_core.costmodel.price import Price
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.program import Program
from overlayccl_core.search.ranking import ranking
from tests.search.costs import OFFLINE, favouring
from tests.stages.test_search import Searched, search_of

FOLDER = Path(__file__).parents[2] / "config/searches"
COST = favouring("all_to_all")


def of(ranked_by: RankedBy) -> Searched:
    return search_of(
        "grad_ar",
        COST,
        search=OFFLINE.changed(ranked_by=ranked_by, begin=Begin.DEVELOPER, programs=60),
    )


def prices(run: Searched) -> dict[tuple[str, str, str], float]:
    return {(row["case"], row["direction"], row["program"]): row["predicted_us"] for row in run.candidates}


def tried(run: Searched) -> list[Any]:
    return [(row["parent"], row["step"]) for row in run.sketches]


def test_prices_are_those_of_the_cost_model_though_the_search_did_not_know_them() -> None:
    usual, blind = of(RankedBy.PRICE), of(RankedBy.CALLS)
    assert tried(usual) != tried(blind)
    both = prices(usual).keys() & prices(blind).keys()
    assert len(both) > 3 and {prices(usual)[one] for one in both} == {prices(blind)[one] for one in both}
    assert all(row["predicted_us"] is None or row["predicted_us"] > 1 for row in blind.candidates)


def test_nothing_is_priced_while_it_goes_on() -> None:
    def refused(program: Program) -> Price:
        raise AssertionError("the cost model is in the loop")

    ranks = ranking(OFFLINE.changed(ranked_by=RankedBy.CALLS), refused)
    (row, *_) = of(RankedBy.PRICE).ways
    program = loads(row["program_json"])
    assert ranks(program).us == len(program.calls)
    assert ranking(OFFLINE, refused) is refused


def test_of_few_calls_is_what_a_search_by_calls_would_choose() -> None:
    made = pl.DataFrame(of(RankedBy.CALLS).candidates, infer_schema_length=None)
    assert made.filter(pl.col("elite"))["collectives"].min() == made["collectives"].min()


def test_a_model_is_shown_no_ranks_as_prices() -> None:
    search = load("scripted", FOLDER)
    with pytest.raises(ValueError, match="show_scores: false"):
        search.changed(ranked_by=RankedBy.CALLS)
    assert search.changed(ranked_by=RankedBy.CALLS, show_scores=False).ranked_by is RankedBy.CALLS
