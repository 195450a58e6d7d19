"""The run-time half of deployed modules, imported as the Python that it is. No ranks."""

import warnings
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from overlayccl_core.backends.torchdist import calls
from overlayccl_core.emit.runtime import versions
from overlayccl_core.emit.runtime.layout import join, mask_table, pick_rows, row_table, shifted


def test_another_library_than_the_proven_one_is_refused_where_strict_and_told_once_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "PROVEN", {"library": "gloo", "torch": "1.0", "driver": "7"})
    monkeypatch.setattr(versions, "_warned", False)
    here = {"library": "gloo", "torch": "2.0", "driver": "7"}
    with pytest.raises(RuntimeError, match=r"1\.0.*2\.0.*strict=False"):
        versions.check_versions(here, True)
    with pytest.warns(RuntimeWarning, match=r"torch 1\.0"):
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


def test_tables_are_where_they_are_wanted_whatever_the_default_device_is() -> None:
    runs = ((2, 1), (-1, 1), (0, 2))
    with torch.device("meta"):
        index, holes = row_table(runs, "cpu")
        other, mask = mask_table(runs, True, "cpu")
    assert index.tolist() == other.tolist() == [2, 0, 0, 1]
    assert holes is not None and holes.tolist() == [1] and mask is not None and mask.view(-1).tolist()[1]


def world(*backends: tuple[str, Any]) -> Any:
    """torch.distributed with a process group that has a backend for each device, and what its options are."""
    held = {
        f"device {i}": SimpleNamespace(name=lambda name=name: name, options=options)
        for i, (name, options) in enumerate(backends)
    }
    group = SimpleNamespace(_device_types=list(held), _get_backend=held.__getitem__)
    return SimpleNamespace(group=SimpleNamespace(WORLD=group))


@pytest.mark.parametrize("mixed", [False, True])
def test_a_new_group_gets_timeout_and_options_of_the_scripts_own(
    monkeypatch: pytest.MonkeyPatch, mixed: bool
) -> None:
    minute = timedelta(minutes=1)
    fast = SimpleNamespace(_timeout=minute, is_high_priority_stream=True)
    slow = SimpleNamespace(_timeout=minute)
    backends = [("gloo", slow), ("nccl", fast)] if mixed else [("nccl", fast)]
    monkeypatch.setattr(calls, "dist", world(*backends))
    given = calls._as_world()
    assert given == {"timeout": minute, "pg_options": fast} and given["pg_options"] is not fast
    monkeypatch.setattr(calls, "dist", world(("gloo", slow)))
    assert calls._as_world() == {"timeout": minute, "pg_options": None}
    monkeypatch.setattr(calls, "dist", world(("silent", None)))
    assert calls._as_world() == {"timeout": None, "pg_options": None}
