"""A candidate that failed on the ranks: no finalist, no baseline arm, never chosen, and the verdicts say why."""

from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.table import write
from tests.stages.flow import chosen_of, finalists_of

EMPTY = {"samples_us": [], "slowest_rank": [], "rounds": 0, "repeats": 0}


@pytest.mark.parametrize(
    ("status", "reason"),
    [("crashed", "crashed"), ("hung", "hung"), ("raised", "raised"), ("wrong", "wrong_value")],
)
def test_the_fastest_candidate_that_failed_is_not_chosen(
    status: str, reason: str, a2a_flow: SimpleNamespace
) -> None:
    flow = a2a_flow
    developers = flow.ready.filter(arm="developer")["program"]
    finalists = pl.col("arm").str.starts_with("finalist") & ~pl.col("program").is_in(developers)
    first = flow.ready.filter(finalists).row(0, named=True)
    failed = {**EMPTY, "status": status, "message": "what happened; see logs/bench.failure-0/rank-1.error"}
    here = {key: first[key] for key in ("case", "direction", "program")}
    rows = [row | (failed if here.items() <= row.items() else {}) for row in flow.bench.to_dicts()]
    bench = write(BENCH, rows, flow.folder / f"bench-{status}.parquet")
    listed = finalists_of(flow, bench=bench)["finalists"]
    ready = write(FINALISTS, listed, flow.folder / f"finalists-{status}.parquet")
    assert ready.filter(**here).is_empty()
    chosen = chosen_of(flow, bench=bench, ready=ready)
    assert not [row for row in chosen.choice if here.items() <= row.items()]
    place = {"gate": "bench"} | {key: first[key] for key in ("case", "direction", "candidate")}
    [verdict] = [row for row in chosen.verdicts if place.items() <= row.items()]
    assert (verdict["outcome"], verdict["reason"]) == ("fail", reason)
    assert verdict["message"].endswith("rank-1.error")
