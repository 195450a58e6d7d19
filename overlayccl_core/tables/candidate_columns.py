"""Common columns of tables of candidates. A candidate is identified by Case, direction and name."""

from dataclasses import replace

import polars as pl

from overlayccl_core.tables.table import Column

FOUND = "found-"  # prefix of a Program's name if no known way is equal or equivalent
OUTCOMES = ("pass", "fail", "unproven", "not_applicable")

PROBLEM = Column(name="problem", dtype=pl.String(), doc="a file in problems/")
CASE = Column(name="case", dtype=pl.String(), doc="readable id")
DIRECTION = Column(
    name="direction", dtype=pl.String(), values=("forward", "backward"), doc="of the training step"
)
CANDIDATE_KEY = (
    CASE,
    DIRECTION,
    Column(
        name="candidate",
        dtype=pl.String(),
        doc=f"a known way's name, or {FOUND}<first 8 digits of value_digest>",
    ),
)
CHOSEN_AS = Column(
    name="arm", dtype=pl.String(), doc="the arm of the choice: one of `finalists`, or only_<problem>"
)
ORIGIN = Column(
    name="origin", dtype=pl.String(), values=("developer", "known", "rule", "sketch"), doc="whose idea it was"
)
NUMERICS = Column(
    name="numerics",
    dtype=pl.String(),
    values=("exact", "reordered", "lossy"),
    doc="how it rounds beside the reference (docs/proof.md)",
)
NUMERICS_OR_NULL = replace(NUMERICS, nullable=True, doc=f"{NUMERICS.doc}; null: not proven")
VALUE_DIGEST = Column(
    name="value_digest", dtype=pl.String(), doc="of the computed values, in any order of calls"
)
PROGRAM_JSON = Column(name="program_json", dtype=pl.String(), doc="the Program")
VERDICT_COLUMNS = (
    Column(name="outcome", dtype=pl.String(), values=OUTCOMES, doc="what the gate said"),
    Column(name="reason", dtype=pl.String(), doc="a code; ok when passed"),
    Column(name="message", dtype=pl.String(), doc="one sentence for people"),
)


def is_found(candidate: str) -> bool:
    """Return whether a search found it. Any other is a known way's Program, written by people, whatever its arm."""
    return candidate.startswith(FOUND)


_LOW, _HIGH = (f"{end} end of its 95% interval; null: not known" for end in ("lower", "upper"))


def us(name: str, doc: str = "") -> Column:
    """Return a column of a time, null if unknown."""
    return Column(name=name, dtype=pl.Float64(), unit="us", nullable=True, doc=doc)


def ratio(name: str, doc: str = "") -> tuple[Column, Column, Column]:
    """Return the columns of a ratio and the ends of its 95% interval, null if unknown."""
    return (
        Column(name=name, dtype=pl.Float64(), nullable=True, doc=doc),
        Column(name=f"{name}_low", dtype=pl.Float64(), nullable=True, doc=_LOW),
        Column(name=f"{name}_high", dtype=pl.Float64(), nullable=True, doc=_HIGH),
    )
