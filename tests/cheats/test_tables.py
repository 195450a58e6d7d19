"""Tables that point outside are rejected where they are written; each would pass if it were clamped or wrapped.

Every test puts the operation without its check in the place of the one with it: what NumPy (negative indices
wrap), XLA (indices are clamped) or nobody in particular (the last one wins) would make of it.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Gate
from overlayccl_core.program import language, nodes
from overlayccl_core.program.groups import Groups
from overlayccl_core.program.recorder import Value, active
from tests.cheats.judge import judge
from tests.small_problems import exchange

SOURCE = Path(__file__).with_name("tables.py").read_text()
PROBLEM = exchange(4, {"x": (6,)}, {"y": (6,)}, width=6)

checked_slice, checked_select = language.slice_axis, language.index_select


def wrapping_slice(x: Value, dim: int, start: object, length: int) -> Value:
    return checked_slice(x, dim, np.mod(start, x.shape[dim]), length)  # type: ignore[call-overload]


def clamping_slice(x: Value, dim: int, start: object, length: int) -> Value:
    return checked_slice(x, dim, np.clip(start, 0, x.shape[dim] - length), length)  # type: ignore[call-overload]


def clamping_select(x: Value, table: object, dim: int = 0) -> Value:
    return checked_select(x, np.clip(table, 0, x.shape[dim] - 1), dim)  # type: ignore[call-overload]


def any_groups(members: object, ranks: int) -> Groups:
    return Groups(tuple(tuple(g) for g in members))  # type: ignore[attr-defined]


def last_one_wins(x: Value, pairs: list[tuple[int, int]]) -> Value:
    sources = [-1] * active().problem.ranks
    for source, destination in pairs:
        sources[destination] = source
    return Value(active().issue(nodes.make_permute(x.node, sources)), x.shape)


@pytest.mark.parametrize(
    ("function", "message", "name", "unchecked"),
    [
        # -1 is the last element for NumPy only: starts must lie inside the axis
        ("starts_at_minus_one", "must lie inside it", "slice_axis", wrapping_slice),
        # XLA moves the start back, others read garbage: every rank's row is looked at
        ("starts_past_the_end_on_one_rank", "must lie inside it", "slice_axis", clamping_slice),
        # a gather that is right when clamped: entries must lie in the axis
        ("indexes_past_the_end", "entries must lie in -1..5", "index_select", clamping_select),
        # every rank is in two groups, which no library defines: groups must be a partition
        ("names_ranks_twice", "must partition ranks", "groups_of", any_groups),
        # counts on the last of two messages to win: pairs must be injective
        ("sends_twice_to_one_rank", "receives twice", "collective_permute", last_one_wins),
    ],
)
def test_a_table_that_points_outside_is_stopped(
    function: str,
    message: str,
    name: str,
    unchecked: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict = judge(SOURCE, function, PROBLEM)
    assert (verdict.gate, verdict.reason) == (Gate.LEGALITY, Reason.NOT_IN_LANGUAGE)
    assert message in verdict.message
    monkeypatch.setattr(language, name, unchecked)
    assert judge(SOURCE, function, PROBLEM).passed
