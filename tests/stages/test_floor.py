"""Times that cannot be true, planted in a bench: what the floor catches, and that it accuses nobody else."""

from types import SimpleNamespace

import polars as pl

from overlayccl_core.evidence.benched import Benched, benched, floor_of
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.program.json_form import loads
from tests.fake_timings import timing_columns


def judged(flow: SimpleNamespace, bench: pl.DataFrame) -> dict[tuple[str, str], Benched]:
    """(case, candidate) -> what is said of it, forward."""
    found = benched(flow.shortlisted, bench, floor_of(flow.probes))
    return {
        (place[0], one.candidate): one
        for place, listed in found.items()
        if place[1] == "forward"
        for one in listed
    }


def accused(flow: SimpleNamespace, bench: pl.DataFrame) -> set[tuple[str, str]]:
    return {key for key, one in judged(flow, bench).items() if one.verdict.reason is Reason.BELOW_FLOOR}


def with_the_time_of(flow: SimpleNamespace, candidate: str, other: str) -> pl.DataFrame:
    """One candidate's rows with the samples of another, under its own digest."""
    programs = {
        (row["case"], row["candidate"]): loads(row["program_json"])
        for row in flow.shortlisted.iter_rows(named=True)
    }
    rows = [
        row
        | (
            {"samples_us": timing_columns(programs[row["case"], other])["samples_us"]}
            if row["candidate"] == candidate
            else {}
        )
        for row in flow.bench.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=flow.bench.schema)


def test_what_was_really_run_is_never_accused(tp_flow: SimpleNamespace, a2a_flow: SimpleNamespace) -> None:
    for flow in (tp_flow, a2a_flow):
        assert accused(flow, flow.bench) == set()


def test_a_program_that_leaves_out_a_dependent_call_is_caught(tp_flow: SimpleNamespace) -> None:
    """reduce_scatter, then all_gather: in the time of one exchange it did one of them."""
    skips = "reduce_scatter_all_gather"
    planted = with_the_time_of(tp_flow, skips, "all_to_all_of_copies")
    assert accused(tp_flow, planted) == {(case, skips) for case in tp_flow.listed["case"]}


def test_a_timer_that_tells_half_is_caught_where_calls_wait_for_each_other(tp_flow: SimpleNamespace) -> None:
    halved = tp_flow.bench.with_columns(samples_us=pl.col("samples_us").list.eval(pl.element() / 2))
    serial = ("developer", "merged_over_microbatches", "reduce_scatter_all_gather")
    assert {(case, name) for case in tp_flow.listed["case"] for name in serial} <= accused(tp_flow, halved)
