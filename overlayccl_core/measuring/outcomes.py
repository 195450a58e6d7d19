"""Gates and their outcomes: for verdicts, and for the columns of tables."""

from enum import StrEnum


class Gate(StrEnum):
    """The gates, in the order in which a Program passes them."""

    LEGALITY = "legality"
    EQUIVALENCE = "equivalence"
    BENCH = "bench"
    TRAINING = "training"
    CHOICE = "choice"


class Outcome(StrEnum):
    """pass; fail: shown to be wrong; unproven: not shown to be right; not_applicable: no question here."""

    PASS = "pass"
    FAIL = "fail"
    UNPROVEN = "unproven"
    NOT_APPLICABLE = "not_applicable"
