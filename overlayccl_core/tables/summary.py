"""One row per Case and strategy: proof, price, measurement, validity."""

import polars as pl

from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL


def _number(name: str, unit: str = "", doc: str = "") -> Column:
    return Column(name=name, dtype=pl.Float64(), unit=unit, nullable=True, doc=doc)


SUMMARY = Table(
    name="summary",
    version=2,
    columns=(
        Column(name="problem", dtype=pl.String()),
        Column(name="case", dtype=pl.String()),
        Column(name="strategy", dtype=pl.String()),
        Column(name="role", dtype=pl.String(), doc="developer, hand_bundled or other"),
        Column(name="status", dtype=pl.String(), values=("program", "not_applicable", "rejected")),
        Column(name="proof", dtype=pl.String(), doc="outcome of the equivalence gate, or why it did not run"),
        Column(name="numerics", dtype=pl.String(), nullable=True, values=("exact", "reordered", "lossy")),
        _number("predicted_us", "us"),
        _number("predicted_low_us", "us"),
        _number("predicted_high_us", "us"),
        _number("measured_us", "us"),
        _number("measured_low_us", "us"),
        _number("measured_high_us", "us"),
        _number("speedup", doc="developer's time over this one's, paired within a launch"),
        _number("speedup_low"),
        _number("speedup_high"),
        _number("repeat_rel_error", doc="of the measurement: even against odd rounds"),
        _number("algbw_gbps", "GB/s", "payload over time"),
        _number("busbw_gbps", "GB/s", "algbw scaled to what the links carry"),
        _number("floor_us", "us", "no time below this can be true"),
        Column(name="validity", dtype=pl.String(), values=("valid", "invalid", "unmeasured")),
        Column(
            name="disturbed",
            dtype=pl.Boolean(),
            nullable=True,
            doc="others took CPU time in the launches measured; null: there are none",
        ),
        FINGERPRINT_OR_NULL,
    ),
)
