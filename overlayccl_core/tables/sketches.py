"""Every proposal of a search: its content, its author and its outcome."""

from overlayccl_core.tables.candidate_columns import DIRECTION, ORIGIN
from overlayccl_core.tables.table import Table, integer, number, text

SKETCHES = Table(
    name="sketches",
    row="one proposal",
    folder="[ablations/]problems/<problem>/search/<search>/",
    rule="search",
    version=5,
    minimum_rows=0,
    columns=(
        text("case", doc="the Case of the search, also while it tries a smaller one"),
        DIRECTION,
        text("search", doc="a file in config/searches"),
        integer("number", doc="counts the proposals of a Case and direction from 0"),
        text("parent", nullable=True, doc="value_digest; null: from no Program"),
        ORIGIN,
        text("step", nullable=True, doc="JSON of [rule, class, knob], the last of several; null: no rule's"),
        text("function", nullable=True, doc="a sketch's, in its source"),
        text("source", nullable=True, doc="a sketch's text, named in recipes by its sha256; null: no sketch"),
        text(
            "purpose",
            nullable=True,
            doc="purpose of the question to its language model; null: it was not asked, or a rule's",
        ),
        text("call", nullable=True, doc="digest of that question in `calls`"),
        text("aim", nullable=True, doc="term of the price to be lowered"),
        number("aim_us", nullable=True, doc="that term, before the refinement"),
        number("aimed_us", nullable=True, doc="that term, after it; null: no Program, or no price"),
        text("rationale", doc="why it was proposed"),
        text(
            "outcome",
            values=(
                *("program", "duplicate", "does_not_apply", "rejected"),
                *("illegal", "infeasible", "not_proven"),
            ),
            doc="program: priced; duplicate: known by its value_digest; rejected: no Program, or no such rule; "
            "infeasible: priced, never chosen; not_proven: a wrong sketch, or one not shown to be right",
        ),
        text("value_digest", nullable=True, doc="null: there is no Program"),
        text("message", doc="why it is not a program that may be chosen"),
        text("stage", values=("proxy", "full"), doc="proxy: at a smaller Case"),
    ),
)
