"""The run-time half of deployed modules, imported as the Python that it is. No ranks."""

import warnings

import pytest
import torch

from overlayccl_core.emit.runtime import versions
from overlayccl_core.emit.runtime.groups import apart, gradients
from overlayccl_core.emit.runtime.layout import join, pick_rows, row_table, shifted


def test_what_a_group_gives_shares_no_memory_with_anything_of_the_scripts() -> None:
    given, buffer = torch.arange(4.0), torch.arange(8.0)
    values = [buffer[4:], given.view(2, 2), buffer[:4], buffer[2:6], buffer[:4]]
    wanted = [x.clone() for x in values]
    separate = apart(values, [given])
    for i, x in enumerate(separate):
        x.add_(1)
        wanted[i] += 1
        assert all(torch.equal(y, want) for y, want in zip(separate, wanted, strict=True))
    assert torch.equal(given, torch.arange(4.0)) and max(x._version for x in separate) == 1
    merged = apart([buffer[:4], buffer[4:]], [given])
    assert [x.data_ptr() - buffer.data_ptr() for x in merged] == [0, 16]  # nothing is copied in vain
    back = gradients([given.view(4), buffer[:4], given[:2], given.view(4)], [given])
    assert back[0] is given and back[3] is given and back[1].data_ptr() == buffer.data_ptr()
    assert back[2].data_ptr() != given.data_ptr() and torch.equal(back[2], given[:2])


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
