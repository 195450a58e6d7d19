"""Tables of the target `drift`: some probes timed again, and what a changed network would change."""

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM, ratio
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.table import Table, flag, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, TIMING_COLUMNS

PROBE, ROLE = PROBES.columns[:2]

REPROBES = Table(
    name="reprobes",
    row="one launch of one probe that was timed again",
    folder="drift/",
    rule="reprobe",
    version=1,
    columns=(PROBE, ROLE, *TIMING_COLUMNS),
)
DRIFT = Table(
    name="drift",
    row="one probe that was timed again",
    folder="drift/",
    rule="reprobe",
    version=1,
    columns=(
        PROBE,
        text("kind", doc="its only kind of collective, with its reach; local: it has none; mixed: several"),
        number("old_us", doc="measured when theta was fitted"),
        number("predicted_us", doc="by theta"),
        number("low_us", doc="lower end of the prediction's interval"),
        number("high_us", doc="upper end of the prediction's interval"),
        number("new_us", doc="measured again"),
        flag("was_within", doc="old_us lies in the interval"),
        flag("within", doc="new_us lies in the interval"),
        flag("disturbed", doc="others took too much of the CPU when it was timed again"),
        FINGERPRINT,
    ),
)
DRIFTED_CHOICES = Table(
    name="drifted_choices",
    row="one Case and direction whose finalists were benched",
    folder="drift/",
    rule="reprobe",
    version=1,
    minimum_rows=0,
    columns=(
        PROBLEM,
        CASE,
        DIRECTION,
        text("cheapest", doc="the finalist with the least time in the bench"),
        number("old_us", doc="its time in the bench"),
        number("new_us", doc="the same, scaled by the change of its price"),
        text("now_cheapest", doc="the finalist with the least scaled time"),
        number("now_us", doc="that time"),
        *ratio("gain", doc="scaled time of `cheapest` over that of `now_cheapest`"),
        flag("changes", doc="another finalist is cheapest, beyond noise"),
        FINGERPRINT,
    ),
)
