"""The run-time half of deployed modules, imported as the Python that it is. No ranks."""

import warnings

import pytest
import torch

from overlayccl_core.emit.runtime import versions
from overlayccl_core.emit.runtime.layout import join, pick_rows, row_table, shifted


def test_another_library_than_the_proven_one_is_refused_where_strict_and_told_once_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "PROVEN", {"library": "gloo", "torch": "1.0", "driver": "7"})
    monkeypatch.setattr(versions, "_warned", False)
    here = {"library": "gloo", "torch": "2.0", "driver": "7"}
    with pytest.raises(RuntimeError, match=r"measured with torch 1\.0, here is torch 2\.0.*strict=False"):
        versions.check_versions(here, True)
    with pytest.warns(RuntimeWarning, match=r"measured with torch 1\.0"):
        versions.check_versions(here, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.check_versions(here, False)
        versions.check_versions({**here, "torch": "1.0"}, True)


def test_pieces_are_joined_and_rows_picked_with_zeros_where_the_table_says_so() -> None:
    x, y = torch.arange(4.0), torch.arange(10.0, 16.0)
    assert join(((1, 2, 3), (-1, 0, 2), (0, 1, 2)), (x, y)).tolist() == [12, 13, 14, 0, 0, 1, 2]
    rows = pick_rows(y, 2, row_table(((2, 1), (-1, 1), (0, 2)), "cpu"))
    assert rows.tolist() == [14, 15, 0, 0, 10, 11, 12, 13]
    assert row_table(((1, 2),), "cpu")[1] is None
    assert shifted(3, 4) == (3, 0, 1, 2)
