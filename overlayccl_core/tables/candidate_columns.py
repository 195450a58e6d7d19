"""Common columns of tables of candidates. A candidate is identified by Case, direction and name."""

from dataclasses import replace

from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.tables.table import Column, number, text

FOUND = "found-"  # prefix of a Program's name if no known way is equal or equivalent

PROBLEM = text("problem", doc="a file in problems/")
CASE = text("case", doc="readable id")
DIRECTION = text("direction", values=("forward", "backward"), doc="of the training step")
CANDIDATE_KEY = (
    CASE,
    DIRECTION,
    text("candidate", doc=f"a known way's name, or {FOUND}<first 8 digits of value_digest>"),
)
CHOSEN_AS = text("arm", doc="the arm of the choice: one of `finalists`, or only_<problem>")
ORIGIN = text("origin", values=("developer", "known", "rule", "sketch"), doc="whose idea it was")
NUMERICS = text(
    "numerics",
    values=("exact", "reordered", "lossy"),
    doc="how it rounds beside the reference (docs/proof.md)",
)
NUMERICS_OR_NULL = replace(NUMERICS, nullable=True, doc=f"{NUMERICS.doc}; null: not proven")
VALUE_DIGEST = text("value_digest", doc="of the computed values, in any order of calls")
PROGRAM_JSON = text("program_json", doc="the Program")
VERDICT_COLUMNS = (
    text("outcome", values=tuple(Outcome), doc="what the gate said"),
    text("reason", doc="a code; ok when passed"),
    text("message", doc="one sentence for people"),
)


def is_found(candidate: str) -> bool:
    """Return whether a search found it. Any other is a known way's Program, written by people, whatever its arm."""
    return candidate.startswith(FOUND)


_LOW, _HIGH = (f"{end} end of its 95% interval; null: not known" for end in ("lower", "upper"))


def ratio(name: str, *, doc: str) -> tuple[Column, Column, Column]:
    """Return the columns of a ratio and the ends of its 95% interval, null if unknown."""
    return (
        number(name, nullable=True, doc=doc),
        number(f"{name}_low", nullable=True, doc=_LOW),
        number(f"{name}_high", nullable=True, doc=_HIGH),
    )
