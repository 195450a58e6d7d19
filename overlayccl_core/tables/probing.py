"""Tables of the target `probing`: probes chosen by a language model, and their quality beside the sweep's."""

from dataclasses import replace

from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.table import Table, flag, integer, number, text, texts
from overlayccl_core.tables.timing_columns import FINGERPRINT, REPEAT_ERROR, TIMING_COLUMNS

SEARCH = text("search", doc="a file in config/searches: the chooser")
PROBE, ROLE = PROBES.columns[:2]

ASKED_PROBES = Table(
    name="asked_probes",
    row="a call of a tool or one of its ordered probes; the last row says why the questions ended",
    folder="probing/<search>/",
    rule="ask_probes",
    version=1,
    columns=(
        SEARCH,
        integer("number", doc="counts from 0"),
        integer("turn", doc="of the conversation, from 0"),
        text("tool", doc="the called tool; empty: in the last row"),
        text("arguments", doc="JSON, as they came"),
        text(
            "outcome",
            values=("measured", "known", "refused", "failed", "told", "ended"),
            doc="known: timed in an earlier turn, or a fit; refused: cannot be, the message says why; failed: its "
            "launch did; told: a question without timing; ended: the last row",
        ),
        text("message", doc="what was told, or why not"),
        text("probe", nullable=True, doc="readable name; null: it orders none"),
        text("program", nullable=True, doc="digest of the Program; null: none"),
    ),
)
CHOSEN_PROBES = Table(
    name="chosen_probes",
    row="one launch of one chosen Program, as told to its chooser",
    folder="probing/<search>/",
    rule="ask_probes",
    version=3,
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
    version=3,
    columns=(
        PROBE,
        ROLE,
        flag("fixed", doc="the sweep has it"),
        texts("chosen_by", doc="the files in config/searches with this choice"),
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
        text(
            "arm",
            values=("fixed", "fixed_equal_cost", "agent"),
            doc="fixed: to the whole sweep; agent: to a model's choice; fixed_equal_cost: to a random part of "
            "the sweep with as many seconds as that choice",
        ),
        text(
            "search",
            nullable=True,
            doc="the chooser, or the source of the part's seconds; null: the whole sweep",
        ),
        integer("draw", doc="of the random part, from 0"),
        integer("probes", doc="fitted probes"),
        number("seconds", doc="of their samples, in `compared_probes`"),
        integer("columns", doc="columns of the cost model in the sweep and held-out Programs"),
        integer("missing", doc="of them without a value: not told apart, or in no probe"),
        integer("heldout", doc="judging Programs: they are in no fit"),
        integer("priced", doc="of them: priced by the cost model"),
        number(
            "median_log_error",
            nullable=True,
            doc="of |ln(predicted / measured)| over all judging Programs; null: half of them have no price",
        ),
        number(
            "p90_log_error",
            nullable=True,
            doc="nine of ten are not above; null: a tenth or more have no price",
        ),
        number("spearman", nullable=True, doc="of priced Programs; null: too few"),
        replace(REPEAT_ERROR, doc=f"of the judging Programs, {REPEAT_ERROR.doc}"),
        flag("disturbed", doc="others took too much of the CPU while all were timed"),
        texts(
            "made_by",
            doc="of an agent: source of its answers, as in `probe_calls`; empty: no question, or no answer",
        ),
        integer("calls", nullable=True, doc="of an agent: questions; null: of others"),
        integer("launches", nullable=True, doc="of an agent: turns with timing; null: of others"),
        number("usd", nullable=True, doc="of an agent's calls; null: of others, or not known"),
        text("ended", doc="of an agent: why nothing more was asked; empty: of others"),
        FINGERPRINT,
    ),
)
