"""A rank's memory decides before time does: what is best and too large is left, and the next best is taken."""

from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration import settings
from overlayccl_core.costmodel.features import features
from overlayccl_core.evidence.prices import price_columns
from overlayccl_core.evidence.trained import memory_of, with_memory
from overlayccl_core.gates.legality import check
from overlayccl_core.program.json_form import loads
from overlayccl_core.stages import shortlist
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.stages.search import DeploymentFacts, searched
from overlayccl_core.tables.candidates import CANDIDATES
from tests.search.costs import OFFLINE, plain, pricing_of, us_of
from tests.stages.test_search import theta_of

Row = dict[str, Any]
RANKS = 4


def timed(budget: int | None) -> tuple[list[Row], list[Row]]:
    """(what the search tried, what is timed) of fsdp_prefetch at its training shapes, under a budget of a rank."""
    entry = {**catalog.plug_in("fsdp_prefetch").examples(RANKS)["train"], "layers": 4}
    at = catalog.case("fsdp_prefetch", entry, ranks=RANKS, ranks_per_node=RANKS, dtype="bfloat16")
    problem = catalog.build(at)
    ways = list(known_way_rows(problem, None, budget))
    facts = DeploymentFacts(theta=theta_of(plain), capabilities=None, memory_budget_bytes=budget)
    tables = dict(
        searched(
            problem,
            ways,
            OFFLINE.changed(rounds=2, programs=100, random=0),
            facts,
            lambda: 0.0,
            lambda _: None,
        )
    )
    prices = [
        {key: row[key] for key in ("case", "direction", "strategy", "program")}
        | price_columns(pricing_of(plain)(loads(row["program_json"])))
        for row in ways
        if row["legality"] == "pass"
    ]
    listed = shortlist.run(
        settings.read("config/config.yaml"),
        pl.DataFrame(ways, infer_schema_length=None),
        pl.DataFrame(prices, infer_schema_length=None),
        pl.DataFrame(tables["candidates"], schema=CANDIDATES.schema, infer_schema_length=None),
        emit,
        progress=lambda _: None,
    )
    return tables["candidates"], listed


def us(row: Row) -> float:
    """The price of what is listed."""
    return us_of(features(loads(row["program_json"])), plain)


def peak(row: Row) -> int:
    """Bytes of a rank."""
    return int(check(loads(row["program_json"]))["peak_bytes"])


def test_what_is_best_by_time_and_over_the_budget_of_a_rank_is_left_for_the_next_best() -> None:
    _, free = timed(None)
    best = min(free, key=us)
    budget = peak(best) - 1
    tried, listed = timed(budget)
    assert best["program"] not in {row["program"] for row in listed}
    (refused,) = [row for row in tried if row["program"] == best["program"]]
    assert (refused["legality"], refused["reason"], refused["equivalence"]) == ("fail", "memory", None)
    assert "the budget is" in refused["message"]
    assert all(peak(row) <= budget for row in listed)
    next_best = min((row for row in free if peak(row) <= budget), key=us)
    assert us(min(listed, key=us)) <= us(next_best)
    assert us(min(listed, key=us)) > us(best)


def test_what_was_counted_of_an_arm_in_training_stands_where_it_is_confirmed() -> None:
    """Two counts of one step may differ by what a library gives back late."""
    names = ("model", "microbatches", "arm", "peak_memory_bytes")
    before = [("nano", 1, "ddp_25", 8), ("nano", 1, "single_graph", None), ("nano", 2, "ddp_25", 16)]
    steps = pl.DataFrame(before, names, orient="row")
    again = [
        dict(zip(names, row, strict=True)) for row in steps.with_columns(pl.lit(9).alias(names[-1])).rows()
    ]
    told = with_memory(memory_of(steps), [*again, {**again[0], "arm": "deployed"}])
    assert [row["peak_memory_bytes"] for row in told] == [8, 9, 16, 9]
