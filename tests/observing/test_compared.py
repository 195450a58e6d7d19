"""Two modes of a script: the ratio over pairs of launches, and how far their losses are apart."""

import json
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.observing.compared import Launched, gain, half_width, launched, losses_apart, rows
from overlayccl_core.tables.rows import frame_of
from overlayccl_core.tables.script_steps import SCRIPT_STEPS

STEPS = 8


def one(us: float, losses: list[list[float]] | None = None, first: float = 1e6) -> Launched:
    """A rank whose steps take `us`, the first three longer."""
    lengths = [first] * 3 + [us] * (STEPS - 3)
    ends = [int(1e3 * sum(lengths[: n + 1])) for n in range(STEPS)]
    return Launched(ends=ends, losses=losses or [[1.0]] * STEPS, made={}, numerics={})


def table(*pairs: tuple[Launched, Launched]) -> pl.DataFrame:
    found = [
        row
        for pair, modes in enumerate(pairs)
        for mode, of in zip(("plain", "tuned"), modes, strict=True)
        for row in rows(pair, mode, {0: of, 1: of})
    ]
    return frame_of(found, SCRIPT_STEPS.schema, "the test")


def test_the_ratio_is_over_pairs_of_launches_without_their_first_steps() -> None:
    ratio = gain(table((one(200), one(100)), (one(420), one(200)), (one(190), one(100, first=9e9))))
    assert ratio.value == pytest.approx(2.0) and ratio.low and 1.7 < ratio.low < 1.9
    assert half_width(ratio) < 0.2
    assert half_width(gain(table((one(2), one(1))))) == float("inf")


def test_losses_are_compared_by_rank_and_step() -> None:
    mine, other = [[1.0], [2.0, float("nan")]] * 4, [[1.0], [2.0, float("nan")]] * 3 + [[1.0], [2.002, 5.0]]
    steps = table((one(1, mine), one(1, mine)), (one(1, mine), one(1, other)))
    assert losses_apart(steps, (0, "plain"), (0, "tuned")) == 0
    nan_is_no_number = losses_apart(steps, (0, "plain"), (1, "tuned"))
    assert nan_is_no_number is not None and not nan_is_no_number < 1
    none = [[]] * STEPS
    assert losses_apart(table((one(1, none), one(1, none))), (0, "plain"), (0, "tuned")) is None
    assert losses_apart(table((one(1, mine), one(1, none))), (0, "plain"), (0, "tuned")) == float("inf")


def test_what_ranks_wrote_is_read_and_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the tuned script ended with 3 .*its last lines are above"):
        launched(tmp_path, "tuned", 3)
    with pytest.raises(ValueError, match=r"the plain script ended with 0 .*--steps"):
        launched(tmp_path, "plain", 0)
    (tmp_path / "rank-1.json").write_text(json.dumps({"ends": [5], "losses": [[1.0]]}))
    assert launched(tmp_path, "plain", 0) == {1: Launched(ends=[5], losses=[[1.0]], made={}, numerics={})}
