"""Why an arm of a training launch runs: what a row of `steps` is of."""

from enum import StrEnum


class Purpose(StrEnum):
    """The purposes of a course of steps."""

    TIMED = "timed"
    QUIET = "quiet"  # every collective replaced by local work: what is left is the model's own time
    LOSS = "loss"  # many steps from several seeds, not timed
