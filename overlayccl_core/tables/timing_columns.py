"""Common columns of all tables of timings: one row per (launch, Program)."""

import polars as pl

from overlayccl_core.tables.table import Column

FINGERPRINT = Column(
    name="fingerprint", dtype=pl.String(), doc="machine, libraries, ranks and environment of the measurement"
)
FINGERPRINT_OR_NULL = Column(
    name="fingerprint",
    dtype=pl.String(),
    nullable=True,
    doc="of the measurements used; null: none",
)
OF_A_LAUNCH = (
    Column(name="oversubscribed", dtype=pl.Boolean(), doc="more ranks than cores"),
    Column(
        name="foreign_cpu_share",
        dtype=pl.Float64(),
        nullable=True,
        doc="of the CPU, taken by others in the launch (0..1); null: it was cut off before this was known",
    ),
    Column(name="disturbed", dtype=pl.Boolean(), doc="foreign_cpu_share was too high, also when repeated"),
    Column(
        name="nodes",
        dtype=pl.String(),
        doc="CPU, cores, kernel and drivers of the nodes, as their agents tell; empty: all ranks on this host",
    ),
    Column(
        name="clock_off_by_us",
        dtype=pl.Float64(),
        unit="us",
        doc="the most by which the clocks of two nodes, and so a sample's length, may be off",
    ),
)

REPEAT_ERROR = Column(
    name="repeat_rel_error",
    dtype=pl.Float64(),
    doc="error of a time by noise: half the difference of even and odd rounds",
)

TIMING_COLUMNS = (
    Column(name="program", dtype=pl.String(), doc="digest of the Program"),
    Column(name="program_json", dtype=pl.String(), doc="the Program"),
    Column(name="launch", dtype=pl.Int64(), doc="which start of the ranks; ratios hold within one only"),
    Column(
        name="first_call_us",
        dtype=pl.Float64(),
        unit="us",
        nullable=True,
        doc="the first call of the launch, outside of its samples; null: it was not looked at",
    ),
    Column(
        name="compile_us",
        dtype=pl.Float64(),
        unit="us",
        nullable=True,
        doc="of the first call in the library's compiler or its cache; 0: nothing is compiled",
    ),
    Column(
        name="graphs",
        dtype=pl.Int64(),
        nullable=True,
        doc="compiled or found by the first call; 0: nothing is compiled",
    ),
    Column(name="repeats", dtype=pl.Int64(), doc="back-to-back calls in a sample"),
    Column(name="cold_us", dtype=pl.List(pl.Float64()), unit="us", doc="first rounds, per call"),
    Column(name="samples_us", dtype=pl.List(pl.Float64()), unit="us", doc="slowest rank's time per call"),
    Column(name="slowest_rank", dtype=pl.List(pl.Int64()), doc="the rank of each of samples_us"),
    Column(name="rounds", dtype=pl.Int64(), doc="samples taken"),
    *OF_A_LAUNCH,
    FINGERPRINT,
)
