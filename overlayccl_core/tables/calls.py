"""Every question of a search to a language model: purpose, costs and result."""

from overlayccl_core.tables.candidate_columns import DIRECTION
from overlayccl_core.tables.table import Table, flag, integer, number, text

CALLS = Table(
    name="calls",
    row="one question to a language model, also with a recorded answer or without an answer",
    folder="[ablations/]problems/<problem>/search/<search>/",
    rule="search",
    version=1,
    minimum_rows=0,
    columns=(
        text("case", doc="the Case of the search"),
        DIRECTION,
        text("search", doc="a file in config/searches"),
        integer("number", doc="counts the questions of a Case and direction from 0"),
        text("purpose", doc="what was asked for"),
        text("style", doc="of the search: its questions and their order"),
        text(
            "made_by",
            nullable=True,
            values=("model", "command", "scripted"),
            doc="command: a program that does not say what is behind it; scripted: a script or a person, so "
            "nothing about models; null: nobody answered",
        ),
        text("model", doc="the answering one, else the one asked; empty: unknown"),
        text(
            "digest",
            doc="sha256 of the question; question and answer lie in answers/<digest>.json beside this table, or in "
            "the folder of the replay",
        ),
        text(
            "outcome",
            values=(
                *("end", "tool_calls", "max_tokens", "refusal"),
                *("ceiling", "unpriced", "no_key", "rejected", "overloaded"),
                *("lost", "malformed", "failed", "not_recorded", "damaged"),
            ),
            doc="end, tool_calls: a whole answer; max_tokens: it was cut; refusal: the model declines; ceiling, "
            "unpriced, no_key: nothing was sent; lost: sent, and no whole answer came; failed: the program",
        ),
        flag("recorded", doc="the answer was there, so nothing was sent or spent"),
        integer(
            "input_tokens",
            nullable=True,
            doc="sent, without those of the cache; null in all four: not counted",
        ),
        integer("output_tokens", nullable=True, doc="received, thinking included"),
        integer("cache_read_tokens", nullable=True, doc="sent, and read from the cache"),
        integer("cache_write_tokens", nullable=True, doc="sent, and put into the cache"),
        number(
            "usd",
            nullable=True,
            doc="US dollars by config/prices.yaml at the time of the answer; the most possible if the use is "
            "unknown; null: the model has no price",
        ),
        number("seconds", nullable=True, doc="until the answer; null: nothing was sent"),
        text("message", doc="why there is no answer"),
    ),
)
