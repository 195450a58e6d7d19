"""A candidate that failed on the ranks: no finalist, no baseline arm, never chosen, and the verdicts say why."""

from types import SimpleNamespace

import polars as pl
import pytest

from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.stages import choose, finalists
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import write
from tests.stages.flow import quiet

EMPTY = {"cold_us": [], "samples_us": [], "slowest_rank": [], "rounds": 0, "repeats": 0}


@pytest.mark.parametrize(
    ("status", "reason"),
    [("crashed", "crashed"), ("hung", "hung"), ("raised", "raised"), ("wrong", "wrong_value")],
)
def test_the_fastest_candidate_that_failed_is_not_chosen(
    status: str, reason: str, a2a_flow: SimpleNamespace
) -> None:
    flow = a2a_flow
    developers = flow.ready.filter(pl.col("arm") == "developer")["program"]
    finalists_ = pl.col("arm").str.starts_with("finalist") & ~pl.col("program").is_in(developers)
    first = flow.ready.filter(finalists_).row(0, named=True)
    failed = {**EMPTY, "status": status, "message": "what happened; see logs/bench.failure-0/rank-1.error"}
    here = {key: first[key] for key in ("case", "direction", "program")}
    rows = [
        row | failed if all(row[k] == v for k, v in here.items()) else row
        for row in flow.bench.iter_rows(named=True)
    ]
    bench = write(BENCH, rows, flow.folder / f"bench-{status}.parquet")
    listed = finalists.run(
        flow.known_ways,
        flow.shortlisted,
        bench,
        flow.prices,
        flow.candidates,
        flow.probes,
        {},
        progress=quiet,
    )
    ready = write(FINALISTS, listed["finalists"], flow.folder / f"finalists-{status}.parquet")
    assert ready.filter(*(pl.col(k) == v for k, v in here.items())).is_empty()
    tables = choose.Tables(
        known_ways=flow.known_ways, candidates=flow.candidates, shortlist=flow.shortlisted, bench=bench,
        finalists=ready, probes=flow.probes, steps=pl.DataFrame(schema=STEPS.schema),
        stamps=pl.DataFrame(schema=STAMPS.schema),
    )  # fmt: skip
    chosen = choose.run(flow.problem, "gloo", tables, {}, printer=deployed, progress=quiet)
    assert not [row for row in chosen.choice if all(row[k] == v for k, v in here.items())]
    [verdict] = [
        row
        for row in chosen.verdicts
        if row["gate"] == "bench" and row["candidate"] == first["candidate"] and row["case"] == first["case"]
        and row["direction"] == first["direction"]
    ]  # fmt: skip
    assert (verdict["outcome"], verdict["reason"]) == ("fail", reason)
    assert verdict["message"].endswith("rank-1.error")
