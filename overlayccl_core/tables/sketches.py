"""Every proposal of a search: what was tried, by whom, and what became of it."""

import polars as pl

from overlayccl_core.tables.table import Column, Table

SKETCHES = Table(
    name="sketches",
    version=1,
    columns=(
        Column(
            name="case", dtype=pl.String(), doc="that the search is for, also while it tries a smaller one"
        ),
        Column(name="direction", dtype=pl.String(), values=("forward", "backward")),
        Column(name="number", dtype=pl.Int64(), doc="counts the proposals of a Case and direction from 0"),
        Column(name="parent", dtype=pl.String(), nullable=True, doc="value_digest; null: from no Program"),
        Column(name="source", dtype=pl.String(), doc="developer, seed or rule"),
        Column(
            name="step", dtype=pl.String(), nullable=True, doc="JSON of [rule, class, knob]; null: a seed"
        ),
        Column(name="rationale", dtype=pl.String()),
        Column(
            name="outcome",
            dtype=pl.String(),
            values=("program", "duplicate", "does_not_apply", "rejected", "illegal", "infeasible"),
            doc="program: priced; duplicate: known by its value_digest; infeasible: priced, never chosen",
        ),
        Column(name="value_digest", dtype=pl.String(), nullable=True, doc="null: there is no Program"),
        Column(name="message", dtype=pl.String(), doc="why it is not a program that may be chosen"),
        Column(name="stage", dtype=pl.String(), values=("proxy", "full"), doc="proxy: at a smaller Case"),
    ),
)
