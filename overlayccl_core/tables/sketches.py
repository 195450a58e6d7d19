"""Every proposal of a search: its content, its author and its outcome."""

import polars as pl

from overlayccl_core.tables.candidate_columns import DIRECTION, ORIGIN, us
from overlayccl_core.tables.table import Column, Table

SKETCHES = Table(
    name="sketches",
    row="one proposal",
    folder="problems/<problem>/search/<search>/",
    rule="search",
    version=5,
    minimum_rows=0,
    columns=(
        Column(
            name="case", dtype=pl.String(), doc="the Case of the search, also while it tries a smaller one"
        ),
        DIRECTION,
        Column(name="search", dtype=pl.String(), doc="a file in config/searches"),
        Column(name="number", dtype=pl.Int64(), doc="counts the proposals of a Case and direction from 0"),
        Column(name="parent", dtype=pl.String(), nullable=True, doc="value_digest; null: from no Program"),
        ORIGIN,
        Column(
            name="step",
            dtype=pl.String(),
            nullable=True,
            doc="JSON of [rule, class, knob], the last of several; null: no rule's",
        ),
        Column(name="function", dtype=pl.String(), nullable=True, doc="a sketch's, in its source"),
        Column(
            name="source",
            dtype=pl.String(),
            nullable=True,
            doc="a sketch's text, named in recipes by its sha256; null: no sketch",
        ),
        Column(
            name="purpose",
            dtype=pl.String(),
            nullable=True,
            doc="purpose of the question to its language model; null: it was not asked, or a rule's",
        ),
        Column(name="call", dtype=pl.String(), nullable=True, doc="digest of that question in `calls`"),
        Column(name="aim", dtype=pl.String(), nullable=True, doc="term of the price to be lowered"),
        us("aim_us", "that term, before the refinement"),
        us("aimed_us", "that term, after it; null: no Program, or no price"),
        Column(name="rationale", dtype=pl.String(), doc="why it was proposed"),
        Column(
            name="outcome",
            dtype=pl.String(),
            values=(
                *("program", "duplicate", "does_not_apply", "rejected"),
                *("illegal", "infeasible", "not_proven"),
            ),
            doc="program: priced; duplicate: known by its value_digest; rejected: no Program, or no such rule; "
            "infeasible: priced, never chosen; not_proven: a wrong sketch, or one not shown to be right",
        ),
        Column(name="value_digest", dtype=pl.String(), nullable=True, doc="null: there is no Program"),
        Column(name="message", dtype=pl.String(), doc="why it is not a program that may be chosen"),
        Column(name="stage", dtype=pl.String(), values=("proxy", "full"), doc="proxy: at a smaller Case"),
    ),
)
