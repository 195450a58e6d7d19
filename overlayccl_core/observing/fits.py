"""Which Problem a captured call is a part of: by who makes it, and by which other calls its result goes into."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from overlayccl_core.observing.regions import DTYPES, cut

CAPTURED = "captured"
BY_PART = {"backward": "grad_ar", "FSDP": "fsdp_prefetch", "pipeline": "pp_send_recv"}
"""Part of torch that calls -> Problem."""
SUMS = (("all_reduce", "sum"), ("all_reduce", "avg"))


def fits(captured: pl.DataFrame) -> pl.DataFrame:
    """Return rank, call and `problem` of each call of the followed step, out of `captured_calls`.

    `captured` is the Problem of a call that has proven ways and is a part of no other; a fence has none (null).
    """
    flow = captured.filter(pl.col("depends_on").is_not_null()).sort("rank", "call")
    with_ways = {call for region in cut(captured)[0] for run in region.runs for call in run}
    of_ranks = [list(of.iter_rows(named=True)) for _, of in flow.group_by("rank", maintain_order=True)]
    is_ring = _is_ring(of_ranks)
    found = []
    for calls in of_ranks:
        for call, problem in zip(calls, _problems(calls, is_ring), strict=True):
            usual = CAPTURED if call["call"] in with_ways else None
            found.append({"rank": call["rank"], "call": call["call"], "problem": problem or usual})
    return pl.DataFrame(found, schema={"rank": pl.Int64, "call": pl.Int64, "problem": pl.String})


def _problems(calls: Sequence[Mapping[str, Any]], is_ring: bool) -> Iterator[str]:
    """The Problem of each call of a rank; empty: none of them."""
    goes_into_others = {
        before
        for call in calls
        for before in call["depends_on"]
        if not _is_number(call) and call["group"] == calls[before]["group"]
    }
    like = [(call["kind"], call["inputs_bytes"]) for call in calls]
    for call in calls:
        kind, splits = call["kind"], {*(call["input_splits"] or ()), *(call["output_splits"] or ())}
        part = call["part"].partition(" ")[0]
        if call["dtype"] not in DTYPES:
            yield ""
        elif kind in ("send", "recv"):
            yield "ring_kv" if is_ring else "pp_send_recv"
        elif kind == "all_to_all":
            yield "alltoallv" if len(splits) > 1 else "uniform_a2a"
        elif (kind, call["reduction"]) not in SUMS:
            yield BY_PART["FSDP"] if part == "FSDP" and kind in ("all_gather", "reduce_scatter") else ""
        elif part == "backward":
            yield BY_PART[part]
        elif part or _is_number(call):  # by a library; or a loss, a norm
            yield ""
        elif any(like[before] == like[call["call"]] for before in call["depends_on"]):
            yield "layer_block_ar"  # one after the other
        else:
            yield "layer_block_ar" if call["call"] in goes_into_others else "grad_ar"


def _is_number(call: Mapping[str, Any]) -> bool:
    return bool(call["inputs_bytes"] <= DTYPES.get(call["dtype"], 0))


def _is_ring(of_ranks: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Whether all ranks send and receive alike, each to the next one and from the one before."""
    ways = {
        tuple(
            (
                call["kind"],
                (call["peer"] - call["group_ranks"].index(call["rank"])) % len(call["group_ranks"]),
            )
            for call in calls
            if call["kind"] in ("send", "recv") and call["peer"] is not None
        )
        for calls in of_ranks
    }
    return len(ways) == 1
