"""What is asked of a Problem's prices, at the edges."""

from typing import Any

import pytest

from overlayccl_core.costmodel.targets import PriceWord, judged

RIGHT = {
    "median_rel_error": 0.10,
    "repeat_rel_error": 0.05,
    "pair_accuracy": 0.96,
    "repeat_pair_accuracy": 1.0,
    "pairs": 200,
    "top1_regret": 0.05,
}


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({}, None),
        ({"median_rel_error": 0.101}, "error 10.1% (at most 10.0%)"),  # twice the noise
        ({"median_rel_error": 0.155, "repeat_rel_error": 0.08}, "error 15.5% (at most 15.0%)"),
        ({"pair_accuracy": 0.94}, "order 94.0% (at least 95.0%)"),
        ({"pair_accuracy": 0.94, "repeat_pair_accuracy": 0.93}, None),  # as good as the measurement
        ({"pair_accuracy": None, "repeat_pair_accuracy": None, "pairs": 0}, None),
        ({"top1_regret": 0.06}, "regret 6.0% (at most 5%)"),
        ({"top1_regret": None}, None),
    ],
)
def test_each_target_falls_short_for_itself(changes: dict[str, Any], short: str | None) -> None:
    verdict = judged(RIGHT | changes)
    assert verdict.short == (() if short is None else (short,))
    assert verdict.word is (PriceWord.MET if short is None else PriceWord.SHORT)


def test_noise_decides_nothing() -> None:
    assert judged(RIGHT | {"repeat_rel_error": 0.081, "median_rel_error": 0.5}).word is PriceWord.UNDECIDED
