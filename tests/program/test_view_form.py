"""What is kept of views of views stays small."""

import numpy as np
import pytest

from overlayccl_core.program import maps, view_form
from overlayccl_core.program.maps import Map
from overlayccl_core.program.view_form import Laid, normal_view


def scattered(size: int, reads: int, *, step: int) -> Map:
    """Reads of single elements, none beside the one before: as many runs as reads."""
    return maps.from_table(((np.arange(reads) * step) % size)[None, :])


@pytest.mark.parametrize(("reads", "kept"), [(100, 1), (view_form._Kept.MOST_RUNS_OF_ONE + 100, 0)])
def test_a_view_of_many_runs_is_worked_out_and_not_kept(
    reads: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_form, "_kept", view_form._Kept({}))
    size = 2 * reads + 1
    leaf, view = scattered(size, reads, step=2), scattered(reads, reads, step=reads - 1)
    made = normal_view((size,), (Laid((0,), leaf),), view)
    assert made == normal_view((size,), (Laid((0,), leaf),), view)
    assert len(view_form._kept.forms) == kept
