"""Every strategy of a Problem's library at every Case: its Program or the reason for having none, its verdicts."""

from enum import StrEnum

import polars as pl

from overlayccl_core.tables.candidate_columns import (
    CASE,
    DIRECTION,
    NUMERICS_OR_NULL,
    OUTCOMES,
)
from overlayccl_core.tables.table import Column, Table


class WayStatus(StrEnum):
    """Outcome of tracing a strategy of the library at a Case."""

    PROGRAM = "program"
    NOT_APPLICABLE = "not_applicable"
    REJECTED = "rejected"


KNOWN_WAYS = Table(
    name="known_ways",
    row="one strategy of the library at one Case and direction",
    folder="problems/<problem>/",
    rule="known_ways",
    version=1,
    columns=(
        CASE,
        DIRECTION,
        Column(name="strategy", dtype=pl.String(), doc="of the library"),
        Column(name="role", dtype=pl.String(), doc="developer, single_graph, hand_bundled, derived or other"),
        Column(name="status", dtype=pl.String(), values=tuple(WayStatus), doc="what it became here"),
        Column(name="recipe", dtype=pl.String(), doc="JSON"),
        Column(name="program", dtype=pl.String(), nullable=True, doc="digest; null: there is none"),
        Column(name="value_digest", dtype=pl.String(), nullable=True, doc="null: there is no Program"),
        Column(name="program_json", dtype=pl.String(), nullable=True, doc="null: there is no Program"),
        Column(name="collectives", dtype=pl.Int64(), nullable=True, doc="issued per call"),
        Column(name="wire_bytes", dtype=pl.Int64(), unit="bytes", nullable=True, doc="sent by one rank"),
        Column(
            name="peak_bytes", dtype=pl.Int64(), unit="bytes", nullable=True, doc="live at once on a rank"
        ),
        NUMERICS_OR_NULL,
        Column(
            name="legality",
            dtype=pl.String(),
            values=OUTCOMES,
            doc="the deployment can call it and holds it",
        ),
        Column(
            name="equivalence",
            dtype=pl.String(),
            nullable=True,
            values=OUTCOMES,
            doc="of the proof; null: not asked",
        ),
        Column(name="reason", dtype=pl.String(), doc="code of the first verdict that is no pass; ok"),
        Column(name="message", dtype=pl.String(), doc="one sentence for people"),
    ),
)
