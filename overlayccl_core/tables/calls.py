"""Every question of a search to a language model: purpose, costs and result."""

import polars as pl

from overlayccl_core.tables.candidate_columns import DIRECTION
from overlayccl_core.tables.table import Column, Table

CALLS = Table(
    name="calls",
    row="one question to a language model, also with a recorded answer or without an answer",
    folder="problems/<problem>/search/<search>/",
    rule="search",
    version=1,
    minimum_rows=0,
    columns=(
        Column(name="case", dtype=pl.String(), doc="the Case of the search"),
        DIRECTION,
        Column(name="search", dtype=pl.String(), doc="a file in config/searches"),
        Column(name="number", dtype=pl.Int64(), doc="counts the questions of a Case and direction from 0"),
        Column(name="purpose", dtype=pl.String(), doc="what was asked for"),
        Column(name="style", dtype=pl.String(), doc="of the search: its questions and their order"),
        Column(
            name="made_by",
            dtype=pl.String(),
            nullable=True,
            values=("model", "command", "scripted"),
            doc="command: a program that does not say what is behind it; scripted: a script or a person, so "
            "nothing about models; null: nobody answered",
        ),
        Column(name="model", dtype=pl.String(), doc="the answering one, else the one asked; empty: unknown"),
        Column(
            name="digest",
            dtype=pl.String(),
            doc="sha256 of the question; question and answer lie in answers/<digest>.json beside this table, or in "
            "the folder of the replay",
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
            doc="sent, without those of the cache; null in all four: not counted",
        ),
        Column(name="output_tokens", dtype=pl.Int64(), nullable=True, doc="received, thinking included"),
        Column(
            name="cache_read_tokens", dtype=pl.Int64(), nullable=True, doc="sent, and read from the cache"
        ),
        Column(
            name="cache_write_tokens", dtype=pl.Int64(), nullable=True, doc="sent, and put into the cache"
        ),
        Column(
            name="usd",
            dtype=pl.Float64(),
            nullable=True,
            doc="US dollars by config/prices.yaml at the time of the answer; the most possible if the use is "
            "unknown; null: the model has no price",
        ),
        Column(
            name="seconds",
            dtype=pl.Float64(),
            nullable=True,
            doc="until the answer; null: nothing was sent",
        ),
        Column(name="message", dtype=pl.String(), doc="why there is no answer"),
    ),
)
