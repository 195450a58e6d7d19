"""Columns that the tables of candidates share. A candidate is one of its Case and direction, by name."""

import polars as pl

from overlayccl_core.tables.table import Column

OUTCOMES = ("pass", "fail", "unproven", "not_applicable")

CANDIDATE_KEY = (
    Column(name="case", dtype=pl.String()),
    Column(name="direction", dtype=pl.String(), values=("forward", "backward")),
    Column(
        name="candidate", dtype=pl.String(), doc="a seed's name, or found-<first 8 digits of value_digest>"
    ),
)
CHOSEN_AS = Column(
    name="arm", dtype=pl.String(), doc="as which it was chosen: one of `finalists`, or only_<problem>"
)
NUMERICS = Column(name="numerics", dtype=pl.String(), values=("exact", "reordered", "lossy"))
VERDICT_COLUMNS = (
    Column(name="outcome", dtype=pl.String(), values=OUTCOMES),
    Column(name="reason", dtype=pl.String(), doc="a code; ok when passed"),
    Column(name="message", dtype=pl.String(), doc="one sentence for people"),
)


def us(name: str, doc: str = "") -> Column:
    """A time that may be unknown."""
    return Column(name=name, dtype=pl.Float64(), unit="us", nullable=True, doc=doc)


def ratio(name: str, doc: str = "") -> tuple[Column, Column, Column]:
    """A ratio that may be unknown, with the ends of its 95% interval."""
    return (
        Column(name=name, dtype=pl.Float64(), nullable=True, doc=doc),
        Column(name=f"{name}_low", dtype=pl.Float64(), nullable=True),
        Column(name=f"{name}_high", dtype=pl.Float64(), nullable=True),
    )
