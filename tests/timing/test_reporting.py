"""How far a launch is, as people read it: rounds where somebody knows how many there will be."""

import numpy as np
import pytest

from overlayccl_core.launching.status import Phase, StatusFile
from overlayccl_core.timing import reporting
from overlayccl_core.timing.reporting import Reporter


@pytest.mark.parametrize("phase", [Phase.TIMING, Phase.CHECKING])
@pytest.mark.parametrize(("total", "said"), [(2500, ["head: round 300 of 2500"]), (None, [])])
def test_rounds_are_told_in_the_phases_that_have_them(
    phase: Phase, total: int | None, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "LINE_S", 0.0)
    lines: list[str] = []
    reporter = Reporter("head", lambda: total, lines.append)
    rows = np.zeros((2, 6), np.int64)
    rows[:, StatusFile.PHASE] = phase
    rows[:, StatusFile.ROUND] = (301, 300)  # the least counts
    reporter.watch(rows)
    reporter.watch(rows)
    assert lines == [f"head: {phase.words}", *said]
