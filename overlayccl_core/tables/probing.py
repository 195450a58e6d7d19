"""Tables of the target `probing`: probes chosen by a language model, and their quality beside the sweep's."""

from dataclasses import replace

import polars as pl

from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR, TIMING_COLUMNS

SEARCH = Column(name="search", dtype=pl.String(), doc="a file in config/searches: the chooser")
PROBE, ROLE = PROBES.columns[:2]

ASKED_PROBES = Table(
    name="asked_probes",
    row="a call of a tool or one of its ordered probes; the last row says why the questions ended",
    folder="probing/<search>/",
    rule="ask_probes",
    version=1,
    columns=(
        SEARCH,
        Column(name="number", dtype=pl.Int64(), doc="counts from 0"),
        Column(name="turn", dtype=pl.Int64(), doc="of the conversation, from 0"),
        Column(name="tool", dtype=pl.String(), doc="the called tool; empty: in the last row"),
        Column(name="arguments", dtype=pl.String(), doc="JSON, as they came"),
        Column(
            name="outcome",
            dtype=pl.String(),
            values=("measured", "known", "refused", "failed", "told", "ended"),
            doc="known: timed in an earlier turn, or a fit; refused: cannot be, the message says why; failed: its "
            "launch did; told: a question without timing; ended: the last row",
        ),
        Column(name="message", dtype=pl.String(), doc="what was told, or why not"),
        Column(name="probe", dtype=pl.String(), nullable=True, doc="readable name; null: it orders none"),
        Column(name="program", dtype=pl.String(), nullable=True, doc="digest of the Program; null: none"),
    ),
)
CHOSEN_PROBES = Table(
    name="chosen_probes",
    row="one launch of one chosen Program, as told to its chooser",
    folder="probing/<search>/",
    rule="ask_probes",
    version=1,
    minimum_rows=0,
    columns=(SEARCH, PROBE, ROLE, *TIMING_COLUMNS),
)
PROBE_CALLS = Table(
    name="probe_calls",
    row="one question to a language model about the choice of probes",
    folder="probing/<search>/",
    rule="ask_probes",
    version=1,
    minimum_rows=0,
    columns=tuple(column for column in CALLS.columns if column.name not in ("case", "direction")),
)
COMPARED_PROBES = Table(
    name="compared_probes",
    row="one launch of one Program of the sweep, chosen or held out; all in one launch after the choice",
    folder="probing/",
    rule="time_probes",
    version=1,
    columns=(
        PROBE,
        ROLE,
        Column(name="fixed", dtype=pl.Boolean(), doc="the sweep has it"),
        Column(
            name="chosen_by", dtype=pl.List(pl.String()), doc="the files in config/searches with this choice"
        ),
        *TIMING_COLUMNS,
    ),
)
PROBING = Table(
    name="probing",
    row="a cost model fitted to some of the probes",
    folder="probing/",
    rule="weigh_probes",
    version=1,
    columns=(
        Column(
            name="arm",
            dtype=pl.String(),
            values=("fixed", "fixed_equal_cost", "agent"),
            doc="fixed: to the whole sweep; agent: to a model's choice; fixed_equal_cost: to a random part of "
            "the sweep with as many seconds as that choice",
        ),
        Column(
            name="search",
            dtype=pl.String(),
            nullable=True,
            doc="the chooser, or the source of the part's seconds; null: the whole sweep",
        ),
        Column(name="draw", dtype=pl.Int64(), doc="of the random part, from 0"),
        Column(name="probes", dtype=pl.Int64(), doc="fitted probes"),
        Column(name="seconds", dtype=pl.Float64(), doc="of their samples, in `compared_probes`"),
        Column(
            name="columns",
            dtype=pl.Int64(),
            doc="columns of the cost model in the sweep and held-out Programs",
        ),
        Column(
            name="missing", dtype=pl.Int64(), doc="of them without a value: not told apart, or in no probe"
        ),
        Column(name="heldout", dtype=pl.Int64(), doc="judging Programs: they are in no fit"),
        Column(name="priced", dtype=pl.Int64(), doc="of them: priced by the cost model"),
        Column(
            name="median_log_error",
            dtype=pl.Float64(),
            nullable=True,
            doc="of |ln(predicted / measured)| over all judging Programs; null: half of them have no price",
        ),
        Column(
            name="p90_log_error",
            dtype=pl.Float64(),
            nullable=True,
            doc="nine of ten are not above; null: a tenth or more have no price",
        ),
        Column(name="spearman", dtype=pl.Float64(), nullable=True, doc="of priced Programs; null: too few"),
        replace(REPEAT_ERROR, doc=f"of the judging Programs, {REPEAT_ERROR.doc}"),
        Column(
            name="disturbed", dtype=pl.Boolean(), doc="others took too much of the CPU while all were timed"
        ),
        Column(
            name="made_by",
            dtype=pl.List(pl.String()),
            doc="of an agent: source of its answers, as in `probe_calls`; empty: no question, or no answer",
        ),
        Column(name="calls", dtype=pl.Int64(), nullable=True, doc="of an agent: questions; null: of others"),
        Column(
            name="launches",
            dtype=pl.Int64(),
            nullable=True,
            doc="of an agent: turns with timing; null: of others",
        ),
        Column(
            name="usd",
            dtype=pl.Float64(),
            nullable=True,
            doc="of an agent's calls; null: of others, or not known",
        ),
        Column(
            name="ended", dtype=pl.String(), doc="of an agent: why nothing more was asked; empty: of others"
        ),
        FINGERPRINT,
    ),
)
