"""Tables of the target `sweep_payload`: all known ways of a Problem at payloads from small to large."""

from dataclasses import replace

from overlayccl_core.tables.candidate_columns import CASE, NUMERICS, PROBLEM, ratio
from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT
from overlayccl_core.tables.tune import TIMED_WAYS

FOLDER = "sweep_payload/"
TIMED_PAYLOADS = replace(
    TIMED_WAYS,
    name="timed_payloads",
    row="one launch of one proven way at one payload",
    folder=FOLDER,
    rule="time_payloads",
    version=1,
    columns=tuple(column for column in TIMED_WAYS.columns if column.name != "again"),
)
PAYLOAD_TIMES = Table(
    name="payload_times",
    row="one proven way at one payload",
    folder=FOLDER,
    rule="weigh_payloads",
    version=1,
    columns=(
        PROBLEM,
        CASE,
        integer("payload_bytes", doc="of a rank"),
        text("way", doc="a known way; `_in_2`: each of its calls in two parts in flight"),
        text("family", doc="the known way that it is made of"),
        NUMERICS,
        flag("developer", doc="what a script calls: the library's own"),
        flag("fastest", doc="of all ways at this payload, by the odd rounds"),
        flag("best_of_family", doc="of its family at this payload, by the odd rounds"),
        number("time_us", doc="median of the even rounds, median over launches"),
        number("low_us", nullable=True, doc="lower end of its 95% interval; null: too few rounds"),
        number("high_us", nullable=True, doc="upper end"),
        number("busbw_gbps", doc="payload over time_us, scaled to the load of the links"),
        *ratio("gain", doc="developer's time over its own, in the even rounds; null: it is the developer's"),
        integer("rounds", doc="even ones of all launches, behind these figures"),
        integer("launches", doc="with all ways"),
        flag("disturbed", doc="others took CPU time in most of the launches"),
        FINGERPRINT,
    ),
)
