"""Every question of a search to a language model: what it was for, what it took, what came of it."""

import polars as pl

from overlayccl_core.tables.candidate_columns import DIRECTION
from overlayccl_core.tables.table import Column, Table

CALLS = Table(
    name="calls",
    row="one question to a language model, also one whose answer was recorded and one that was not answered",
    folder="problems/<problem>/search/<search>/",
    rule="search",
    version=1,
    minimum_rows=0,
    columns=(
        Column(name="case", dtype=pl.String(), doc="that the search is for"),
        DIRECTION,
        Column(name="search", dtype=pl.String(), doc="a file in config/searches"),
        Column(name="number", dtype=pl.Int64(), doc="counts the questions of a Case and direction from 0"),
        Column(name="purpose", dtype=pl.String(), doc="what was asked for"),
        Column(name="style", dtype=pl.String(), doc="of the search: in what order what is asked"),
        Column(
            name="made_by",
            dtype=pl.String(),
            nullable=True,
            values=("model", "command", "scripted"),
            doc="command: a program that does not say what is behind it; scripted: a script or a person, so "
            "nothing about models; null: nobody answered",
        ),
        Column(name="model", dtype=pl.String(), doc="that answered, else that was asked; empty: nobody says"),
        Column(
            name="digest",
            dtype=pl.String(),
            doc="sha256 of the question; both it and the answer lie in answers/<digest>.json beside this table, or "
            "where they were replayed from",
        ),
        Column(
            name="outcome",
            dtype=pl.String(),
            values=(
                *("end", "tool_calls", "max_tokens", "refusal"),
                *("ceiling", "unpriced", "no_key", "rejected", "overloaded"),
                *("lost", "malformed", "failed", "not_recorded", "damaged"),
            ),
            doc="end, tool_calls: a whole answer; max_tokens: it was cut; refusal: the model declines; ceiling, "
            "unpriced, no_key: nothing was sent; lost: sent, and no whole answer came; failed: the program",
        ),
        Column(name="recorded", dtype=pl.Boolean(), doc="the answer was there, so nothing was sent or spent"),
        Column(
            name="input_tokens",
            dtype=pl.Int64(),
            nullable=True,
            doc="said, but for those of the cache; null in all four: nobody counts them",
        ),
        Column(
            name="output_tokens", dtype=pl.Int64(), nullable=True, doc="answered, thought ones among them"
        ),
        Column(name="cache_read_tokens", dtype=pl.Int64(), nullable=True, doc="said, and in the cache"),
        Column(
            name="cache_write_tokens", dtype=pl.Int64(), nullable=True, doc="said, and put into the cache"
        ),
        Column(
            name="usd",
            dtype=pl.Float64(),
            nullable=True,
            doc="US dollars by config/prices.yaml when it was answered, the most possible where nobody says what "
            "was used; null: the model has no price",
        ),
        Column(
            name="seconds",
            dtype=pl.Float64(),
            nullable=True,
            doc="until the answer; null where nothing was sent",
        ),
        Column(name="message", dtype=pl.String(), doc="why there is no answer"),
    ),
)
