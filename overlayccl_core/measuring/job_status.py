"""Outcome of a job on real ranks: of a candidate in the bench, of a sketch, of an arm of a training step."""

from enum import StrEnum


class JobStatus(StrEnum):
    """Measured (timed or trained), only checked, or the kind of failure."""

    TIMED = "timed"  # a candidate
    TRAINED = "trained"  # an arm
    RIGHT = "right_values"  # a sketch, run once
    CRASHED = "crashed"  # the process of a rank ended while it ran
    HUNG = "hung"  # ranks took no step
    RAISED = "raised"
    WRONG = "wrong"  # it gives other values than its Program


MEASURED = (JobStatus.TIMED, JobStatus.TRAINED)
_FAILED = (JobStatus.CRASHED, JobStatus.HUNG, JobStatus.RAISED, JobStatus.WRONG)
OF_A_CANDIDATE = (JobStatus.TIMED, *_FAILED)
OF_A_SKETCH = (JobStatus.RIGHT, *_FAILED)
OF_AN_ARM = (JobStatus.TRAINED, JobStatus.CRASHED, JobStatus.HUNG, JobStatus.RAISED)
