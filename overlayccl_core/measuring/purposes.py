"""Purposes of an arm in a training launch, for the rows of `steps`."""

from enum import StrEnum

EARLY_STEPS = 6  # the first of a course of losses: so far rounding has not been amplified


class Purpose(StrEnum):
    """The purposes of a course of steps."""

    TIMED = "timed"
    QUIET = "quiet"  # every collective replaced by local work: it leaves the model's own time
    WAITED = "waited"  # every collective waited for where it starts: nothing is in flight
    IDLE = "idle"  # the model gives at once what it computed before: it leaves the calls' own time
    LOSS = "loss"  # many steps from several seeds, not timed
