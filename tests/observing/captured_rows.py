"""Rows of `captured_calls` as a script of some ranks would leave them: one followed step, times of no interest."""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from overlayccl_core.tables.captured import CAPTURED_CALLS, CaptureSource
from overlayccl_core.tables.rows import frame_of

ELEMENT = {"float32": 4, "float64": 8, "bfloat16": 2, "int64": 8}
OUTPUTS = {
    "all_gather": lambda size, ranks: size * ranks,
    "reduce_scatter": lambda size, ranks: size // ranks,
}


def call(
    kind: str,
    elements: int = 8,
    *after: int,
    reduction: str = "",
    dtype: str = "float32",
    groups: Sequence[Sequence[int]] = (),
    **other: Any,
) -> dict[str, Any]:
    """A call of every rank; `groups`: of which ranks (default: all)."""
    return {
        **{"kind": kind, "elements": elements, "after": after, "reduction": reduction, "dtype": dtype},
        **{"groups": groups, **other},
    }


def summed(elements: int = 8, *after: int, **other: Any) -> dict[str, Any]:
    return call("all_reduce", elements, *after, reduction="sum", **other)


def step(calls: Iterable[dict[str, Any]] | dict[int, list[dict[str, Any]]], ranks: int = 4) -> pl.DataFrame:
    """The table of one followed step: calls of all ranks, or of each."""
    of = calls if isinstance(calls, dict) else {rank: list(calls) for rank in range(ranks)}
    rows = [_row(rank, ranks, number, one) for rank in range(ranks) for number, one in enumerate(of[rank])]
    return frame_of(rows, CAPTURED_CALLS.schema, "the test")


def _row(rank: int, ranks: int, number: int, one: dict[str, Any]) -> dict[str, Any]:
    one = dict(one)
    groups, elements, after = (one.pop(name) for name in ("groups", "elements", "after"))
    mine = next((list(group) for group in groups if rank in group), list(range(ranks)))
    size = elements * ELEMENT[one["dtype"]]
    usual = {
        **{
            "source": CaptureSource.SCRIPT,
            "partition": None,
            "device": "cpu",
            "parameters": [],
            "world_size": ranks,
            "rank": rank,
            "step": 8,
            "call": number,
            "line": "train.py:1",
            "part": "",
        },
        **{"inputs_bytes": size, "outputs_bytes": OUTPUTS.get(one["kind"], lambda n, _: n)(size, len(mine))},
        **{
            "shapes": [str(elements)],
            "root": None,
            "uniform": not {"input_splits", "output_splits"} & set(one),
            "peer": None,
            "input_splits": None,
            "output_splits": None,
        },
        **{"group": "0", "group_ranks": mine, "depends_on": list(after), "step_us": 1000.0},
        **{"issued_us": 10.0 * number, "call_us": 1.0, "blocked_us": 5.0, "used_us": None, "done_us": None},
    }
    return usual | one
