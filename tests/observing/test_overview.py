"""What a captured step is at a glance: costs, what is hidden, what each call is, which have other ways."""

from typing import Any

import polars as pl
import pytest

from overlayccl_core.observing.overview import ON_DEVICE, overview
from overlayccl_core.tables.captured import CAPTURED_CALLS
from overlayccl_core.tables.rows import frame_of
from tests.observing.captured_rows import call, step, summed


def timed(followed: pl.DataFrame, *steps: list[dict[str, float | None]]) -> pl.DataFrame:
    """A followed step, and steps before it with these times of each call on every rank."""
    rows = followed.to_dicts()
    before = [
        {**row, "step": number, "depends_on": None, **times[row["call"]]}
        for number, times in enumerate(steps)
        for row in rows
    ]
    return frame_of([*before, *rows], CAPTURED_CALLS.schema, "the test")


def at(
    issued: float, call_us: float, used: float | None, blocked: float, done: float | None = None
) -> dict[str, Any]:
    return {"issued_us": issued, "call_us": call_us, "used_us": used, "blocked_us": blocked, "done_us": done}


def test_what_is_in_flight_while_the_script_goes_on_is_hidden() -> None:
    calls = step([summed(8), summed(8), summed(16)], ranks=2)
    waited = at(0, 10, 10, 90)  # nothing hidden of 100
    behind = at(200, 10, 280, 20)  # 70 of 100
    unseen = at(400, 10, None, 0, done=500)  # 90 of 100
    found = overview(timed(calls, [waited, behind, unseen]))
    assert found.hidden_share == pytest.approx(160 / 300)
    assert found.blocked_us == pytest.approx(100 + 30 + 10)
    assert [(one.calls, one.cost_us, one.flight_us) for one in found.sites] == [(2, 130, 200), (1, 10, 100)]
    assert found.sites[0].step_share == pytest.approx(0.13)


@pytest.mark.parametrize(
    ("kind", "factor"), [("all_reduce", 1.5), ("all_gather", 0.75), ("broadcast", 1.0), ("scatter", None)]
)
def test_busbw_is_that_of_nccl_tests_by_the_larger_side_and_the_time_in_flight(
    kind: str, factor: float | None
) -> None:
    one = {**call(kind), "inputs_bytes": 1000, "outputs_bytes": 4000}
    table = timed(step([one, one]), [at(0, 10, 20, 20), at(100, 10, 120, 5, done=160)])  # 40 and 60 us
    [site] = overview(table).sites
    assert site.busbw_gbps == (None if factor is None else pytest.approx(2 * 4000 * factor / 100 / 1e3))


def test_a_call_whose_end_nobody_saw_has_no_busbw() -> None:
    [site] = overview(timed(step([summed(8)]), [at(0, 10, None, 0)])).sites
    assert site.flight_us == 10 and site.busbw_gbps is None


def test_two_in_flight_together_count_once() -> None:
    together = overview(
        timed(step([summed(8), summed(16)], ranks=2), [at(0, 10, 90, 10), at(10, 10, 100, 0)])
    )
    assert together.hidden_share == pytest.approx(0.7)  # 0 to 100, without the calls and the wait


def test_times_are_of_the_step_of_median_length_and_the_rank_is_the_slowest() -> None:
    calls = step([summed(8)], ranks=2)
    table = timed(calls, *([{**at(0, cost, cost, 0), "step_us": 100 + cost}] for cost in (10, 30, 20)))
    slow = table.with_columns(call_us=pl.col("call_us") * (1 + pl.col("rank")))
    found = overview(slow)
    assert (found.rank, found.blocked_us, found.ranks, found.world_size) == (1, 40, 2, 2)
    assert found.step_us == 120


def test_calls_that_take_turns_in_being_slow_take_no_longer_than_the_step() -> None:
    """In each step another call is slow, so the medians of all would be those of no step."""
    turns = ((90, 10, 10), (10, 90, 10), (90, 90, 10))
    steps = [
        [{**at(100 * i, cost, None, 0), "step_us": sum(costs) + 10} for i, cost in enumerate(costs)]
        for costs in turns
    ]
    found = overview(timed(step([summed(8), summed(16), summed(32)], ranks=2), *steps))
    assert found.blocked_us and found.step_us and found.blocked_us <= found.step_us


def test_calls_with_other_ways_and_those_that_stay_are_counted_with_reasons() -> None:
    calls = [summed(8), call("broadcast", root=0), summed(8), summed(8, 2), call("broadcast", root=1)]
    found = overview(timed(step(calls), [at(0, 1, None, 0)] * 5))
    assert (found.calls, found.free, found.fences) == (5, 3, {"no ways of broadcast": 2})
    assert [(one.kinds, one.ranks, one.times) for one in found.regions] == [
        ({"all_reduce sum": 1}, 4, 1),
        ({"all_reduce sum": 2}, 4, 1),
    ]
    assert {one.meaning: one.stays for one in found.sites if one.kind == "broadcast"} == {
        "broadcast of a rank": "no ways of broadcast",  # of several
    }


BUCKET = {"part": "backward", "parameters": ["fc.bias", "fc.weight", "conv.weight"]}


@pytest.mark.parametrize(
    ("one", "meaning"),
    [
        (summed(**BUCKET), "DDP bucket: fc.bias .. conv.weight (3)"),
        (call("all_gather", part="FSDP layers.0"), "FSDP gather of layers.0"),
        (call("reduce_scatter", reduction="avg", part="FSDP"), "FSDP gradients of the root module"),
        (call("broadcast", part="ZeRO", root=2), "ZeRO parameters of rank 2"),
        (call("send", part="pipeline", peer=1), "pipeline send to rank 1"),
        (summed(1, shapes=[""]), "one number, as a loss or a norm"),
        (summed(8), "sum that no call needs, as of gradients"),
        (call("all_to_all", dtype="int64"), "exchange of counts"),
        (call("all_to_all"), "exchange of rows, as of experts"),
        (call("all_reduce", reduction="max"), "max"),
    ],
)
def test_a_call_is_named_in_the_words_of_the_script(one: dict[str, Any], meaning: str) -> None:
    (site,) = overview(timed(step([one]), [at(0, 1, None, 0)])).sites
    assert site.meaning == meaning


def test_a_sum_that_a_later_call_is_made_from_is_tensor_parallel() -> None:
    found = overview(timed(step([summed(8), summed(16, 0)]), [at(0, 1, None, 0)] * 2))
    assert {one.bytes: one.meaning for one in found.sites}[32] == "tensor-parallel sum"


def test_calls_on_a_device_have_no_times_and_it_says_so() -> None:
    found = overview(step([summed(device="cuda", call_us=None, blocked_us=None)]))
    assert found.blocked_us is None and found.free == 1 and found.gaps == (ON_DEVICE,)
    one_more = timed(step([summed(), summed()]), [{"call_us": 2.0}, {"call_us": 3.0}]).filter(
        (pl.col("step") == 8) | (pl.col("call") == 0)
    )
    found = overview(one_more)
    assert found.blocked_us and not found.gaps and not found.alike
