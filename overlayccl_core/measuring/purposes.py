"""Purposes of an arm in a training launch, for the rows of `steps`."""

from enum import StrEnum


class Purpose(StrEnum):
    """The purposes of a course of steps."""

    TIMED = "timed"
    QUIET = "quiet"  # every collective replaced by local work: it leaves the model's own time
    LOSS = "loss"  # many steps from several seeds, not timed
