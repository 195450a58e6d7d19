"""A captured step: its calls in the order of issue, each with what it costs, in the step of median length."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True, kw_only=True)
class CapturedStep:
    """One rank's training step.

    Attributes:
        step_us: Median length of the recorded steps; None if the source does not tell. All other times are of that
            step, so that they add up to no more than it.
        hidden_share: Of the time in which communication is in flight, the part in which the script neither makes a
            call nor waits; None if the source does not tell, or nothing is in flight.
        calls: One row a call: `captured_calls`, with two more columns: `cost_us`, the time in the call and in its
            waits, and `flight_us`, from its issue until it is over.
        alike: Whether the recorded steps make the same calls.
    """

    rank: int
    step_us: float | None
    hidden_share: float | None
    calls: pl.DataFrame
    alike: bool

    @property
    def on_device(self) -> bool:
        """Whether calls of the step are made on a device."""
        return not self.calls["device"].drop_nulls().is_in(["cpu", ""]).all()

    @property
    def blocked_us(self) -> float | None:
        """Time of the step in calls and in their waits, as far as it is known; None if the source does not tell."""
        known = self.calls["cost_us"].drop_nulls()
        return float(known.sum()) if len(known) and not self.on_device else None


def steps(captured: pl.DataFrame) -> list[CapturedStep]:
    """Return the step of each rank, out of `captured_calls`."""
    return [_step(rank, of_rank) for (rank,), of_rank in captured.group_by("rank", maintain_order=True)]


SAME = ("kind", "reduction", "dtype", "inputs_bytes", "outputs_bytes", "group", "line")


TIMES = ("issued_us", "call_us", "blocked_us", "used_us", "done_us", "step_us", "cost_us", "flight_us")


def _step(rank: object, calls: pl.DataFrame) -> CapturedStep:
    flow = calls.filter(pl.col("depends_on").is_not_null())
    waited, called = pl.col("used_us") + pl.col("blocked_us"), pl.col("issued_us") + pl.col("call_us")
    timed = calls.filter(pl.col("depends_on").is_null()).with_columns(
        cost_us=pl.col("call_us") + pl.col("blocked_us"),
        flight_us=pl.coalesce("done_us", waited, called) - pl.col("issued_us"),
    )
    sequences = {
        tuple(of_step.select(SAME).iter_rows()) for _, of_step in calls.group_by("step", maintain_order=True)
    }
    shown = flow if flow.height else timed.filter(pl.col("step") == pl.col("step").max())
    lengths = (
        timed.group_by("step").agg(pl.first("step_us"), pl.sum("cost_us")).sort("step_us", "cost_us", "step")
    )
    middle = timed.filter(pl.col("step").is_in(lengths["step"][(lengths.height - 1) // 2 :][:1]))
    return CapturedStep(
        rank=int(str(rank)),
        step_us=next(iter(middle["step_us"]), None),
        hidden_share=_hidden_share(list(middle.iter_rows(named=True))),
        calls=shown.drop(pl.selectors.ends_with("_us"))
        .join(middle.select("call", *TIMES), on="call", how="left")
        .sort("call"),
        alike=len(sequences) == 1,
    )


def _hidden_share(calls: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the hidden share of one step; its calls have `flight_us`."""
    if any(call["blocked_us"] is None for call in calls):
        return None
    flights = [(call["issued_us"], call["issued_us"] + call["flight_us"]) for call in calls]
    blocked = [(call["issued_us"], call["issued_us"] + call["call_us"]) for call in calls]
    blocked += [
        (call["used_us"], call["used_us"] + call["blocked_us"])
        for call in calls
        if call["used_us"] is not None
    ]
    in_flight = _covered(flights)
    return (_covered(flights + blocked) - _covered(blocked)) / in_flight if in_flight else None


def _covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered
