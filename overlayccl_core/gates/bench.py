"""Bench: can the measured time be true? A module that skips work is fast."""

from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.job_status import JobStatus
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Estimate

# Failure of a job on real ranks -> reason of its rejection.
FAILED = {
    JobStatus.CRASHED: Reason.CRASHED,
    JobStatus.HUNG: Reason.HUNG,
    JobStatus.RAISED: Reason.RAISED,
    JobStatus.WRONG: Reason.WRONG_VALUE,
}


def failed(status: JobStatus, message: str, floor_us: float) -> Verdict:
    """Return the Verdict on a candidate whose job failed on the ranks."""
    return Verdict.of(Gate.BENCH, Outcome.FAIL, FAILED[status], message, floor_us=floor_us)


def is_below(estimate: Estimate, floor_us: float) -> bool:
    """Return whether a time cannot be true: its whole 95% interval lies below the floor."""
    return estimate.interval()[1] < floor_us


def check(estimate: Estimate | None, floor_us: float, *, unchecked: str = "") -> Verdict:
    """Check a time against the physical floor.

    Args:
        floor_us: Lower bound of any right execution of the Program (`deployments.floor`).
        unchecked: Why its values on the ranks were not checked, for the message of a pass; empty: they were.

    Returns:
        Pass; fail if below the floor beyond noise; unproven without a measurement.
    """
    if estimate is None:
        message = "there are no samples of it: run the bench again, with more seconds if it was cut off"
        return Verdict.of(Gate.BENCH, Outcome.UNPROVEN, Reason.NOT_MEASURED, message, floor_us=floor_us)
    outcome, reason, message = Outcome.PASS, Reason.OK, unchecked
    if is_below(estimate, floor_us):
        outcome, reason = Outcome.FAIL, Reason.BELOW_FLOOR
        message = (
            f"{estimate.value:.0f} us is below the physical floor of {floor_us:.0f} us: it cannot have made "
            "its calls one after another, look at what the module does; if many are below, the machine was "
            "slower while it was probed: measure again"
        )
    figures = {"measured_us": estimate.value, "rounds": estimate.rounds, "floor_us": floor_us}
    return Verdict.of(Gate.BENCH, outcome, reason, message, **figures)
