"""`overlayccl compare`: coefficients of two runs; archives are compared in tests/workflow/test_archive.py."""

from typing import Any

import pytest

from overlayccl_core.cli.compare import _ratio
from overlayccl_core.cli.render import NOTHING


def fitted(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (fitted(4, 3, 5), fitted(8, 7, 9), "2 *"),
        (fitted(4, 3, 6), fitted(5, 4, 7), "1.25"),
        (fitted(0, 0, 0), fitted(5, 4, 6), f"{NOTHING} *"),
        (fitted(0, 0, 4.5), fitted(5, 4, 6), NOTHING),
        (fitted(5, 4, 6), fitted(0, 0, 0), "0 *"),
        (fitted(None), fitted(5, 4, 6), NOTHING),
        (None, fitted(5, 4, 6), NOTHING),
    ],
)
def test_coefficients_whose_intervals_do_not_overlap_are_marked_also_where_there_is_no_ratio(
    a: dict[str, Any] | None, b: dict[str, Any], said: str
) -> None:
    assert _ratio(a, b) == said
