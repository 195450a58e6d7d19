"""A Verdict is consistent in itself."""

import pytest

from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome


def test_evidence_is_sorted_and_found_by_name() -> None:
    verdict = Verdict.of(Gate.LEGALITY, Outcome.PASS, peak_bytes=3, collectives=2)
    assert [name for name, _ in verdict.evidence] == ["collectives", "peak_bytes"]
    assert verdict["peak_bytes"] == 3
    assert verdict.passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": Outcome.FAIL}, "exactly when"),
        ({"reason": Reason.ORDER}, "exactly when"),
        ({"outcome": Outcome.FAIL, "reason": Reason.ORDER}, "needs a message"),
        ({"evidence": (("b", 1), ("a", 2))}, "sorted by name"),
    ],
)
def test_a_verdict_that_contradicts_itself_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Verdict(**{"gate": Gate.EQUIVALENCE, "outcome": Outcome.PASS, **change})
