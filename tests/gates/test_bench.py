"""The bench gate: a time that cannot be true is no result."""

from overlayccl_core.gates.bench import check
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Estimate

TIMED = Estimate(value=100.0, standard_error=1.0, rounds=12)


def test_a_time_above_the_floor_passes_with_its_figures() -> None:
    verdict = check(TIMED, 99.0)
    assert (verdict.gate, verdict.outcome, verdict.reason) == (Gate.BENCH, Outcome.PASS, Reason.OK)
    assert (verdict["measured_us"], verdict["floor_us"], verdict["rounds"]) == (100.0, 99.0, 12)


def test_a_time_below_the_floor_fails() -> None:
    verdict = check(TIMED, 103.0)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.BELOW_FLOOR)
    assert verdict.message.startswith("100 us ") and "103 us" in verdict.message


def test_a_time_that_may_be_above_the_floor_is_not_accused() -> None:
    assert check(TIMED, 101.0).passed


def test_a_pass_tells_that_values_were_not_looked_at() -> None:
    assert check(TIMED, 99.0).message == ""
    verdict = check(TIMED, 99.0, unchecked="its values were not looked at")
    assert verdict.passed and verdict.message == "its values were not looked at"


def test_what_was_not_measured_is_unproven() -> None:
    verdict = check(None, 10.0)
    assert (verdict.outcome, verdict.reason) == (Outcome.UNPROVEN, Reason.NOT_MEASURED)
