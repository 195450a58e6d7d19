"""Times of a model's segments, by themselves: for the price in the step."""

from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

_US = "over steps, mean over ranks; on the rank's core where ranks are processes of a CPU"

SEGMENTS = Table(
    name="segments",
    row="one segment of a model's step at one count of microbatches, in one kind of step",
    folder="train/<model>/",
    rule="segments",
    version=1,
    minimum_rows=0,
    columns=(
        text("model", doc="a file in config/models"),
        integer("microbatches", doc="into which a batch is split"),
        flag("early", doc="kind of step: for modules that start a call before their last read"),
        flag(
            "leaves_work", doc="kind of step: for modules that let the model work while a call is in flight"
        ),
        text("segment", doc="readable name; others: optimizer and step driver"),
        text(
            "outline_json",
            doc="its name, the values that it needs and gives, the segments that it comes after",
        ),
        number("low_us", doc=f"lower quartile {_US}"),
        number("duration_us", doc=f"median {_US}"),
        number("high_us", doc=f"upper quartile {_US}"),
        number("cores", doc="a rank's share of its host's cores, at most 1"),
        FINGERPRINT,
    ),
)
