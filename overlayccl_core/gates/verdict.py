"""What a gate says: evidence in, a Verdict out."""

from dataclasses import dataclass
from enum import StrEnum

EvidenceValue = int | float | str


class Gate(StrEnum):
    """The gates in the order in which a Program passes them."""

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


class Reason(StrEnum):
    """Why, as a code that programs compare."""

    OK = "ok"
    NOT_IN_LANGUAGE = "not_in_language"  # does not parse, trace, or make a Program
    NOT_APPLICABLE = "not_applicable"  # the strategy says so of itself at this Case
    ORDER = "order"  # waits for itself through the model
    NOT_LINEAR = "not_linear"  # the Program of a linear Problem
    PROBLEM_NOT_LINEAR = "problem_not_linear"  # and it brings no data that it could be tried on
    UNSUPPORTED = "unsupported"  # the library cannot make such a call
    MEMORY = "memory"
    OTHER_PROBLEM = "other_problem"  # Program and reference are of different Cases or ports
    WRONG_VALUE = "wrong_value"
    GAIN = "gain"  # right by terms that cancel, or that vanish modulo the prime
    OUT_OF_RANGE = "out_of_range"  # right through values that no float holds well
    DENOMINATOR = "denominator"  # coefficients too fine for the proof
    INACCURATE = "inaccurate"  # in its own dtypes, outside the bound of its class
    RANKS_DIFFER = "ranks_differ"  # an output that is replicated, in bits that depend on the rank
    TOO_LARGE = "too_large"  # not provable within the budget
    PARTS_JOINED = "parts_joined"  # not linear, and of several parts (tokens) in a way that no data tells
    BELOW_FLOOR = "below_floor"  # a time that physics does not allow
    CRASHED = "crashed"  # ended the process of a rank
    HUNG = "hung"  # ranks took no step
    RAISED = "raised"  # on real ranks
    NOT_MEASURED = "not_measured"
    OTHER_MATMULS = "other_matmuls"  # a step that computes something else than the developer's
    WRONG_GRADIENT = "wrong_gradient"
    OTHER_LOSSES = "other_losses"  # trains differently than its numerics class explains
    NOT_FASTER = "not_faster"  # beyond noise, than what is plainer
    NOT_PASSED = "not_passed"  # not chosen: a gate before stopped it
    SURPASSED = "surpassed"  # not chosen: another is faster beyond noise
    SAME_PROGRAM = "same_program"  # as a plainer arm


class Check(StrEnum):
    """What the gates check. All of them always, except in tests that show what each one stops."""

    ORDER = "order"
    LINEAR = "linear"
    CAPABILITIES = "capabilities"
    MEMORY = "memory"
    VALUES = "values"  # equal modulo a prime
    INDEPENDENT_RANKS = "independent_ranks"  # inputs differ from rank to rank
    INDEPENDENT_PORTS = "independent_ports"  # inputs differ from port to port
    INVALID_INPUTS = "invalid_inputs"  # inputs are arbitrary where they are not valid
    GAIN = "gain"  # nothing cancels
    HOSTILE = "hostile"  # what is not linear is tried on data that is made to break it
    RANGE = "range"  # no value out of the range of floats
    DENOMINATOR = "denominator"  # the prime cannot hide a difference
    NUMERICS = "numerics"  # accurate in its own dtypes
    REPLICAS = "replicas"  # what is replicated has the same bits on all ranks
    FLOOR = "floor"  # the time is possible
    MATMULS = "matmuls"  # the step computes what the developer's does
    GRADIENTS = "gradients"  # those of the unsharded model
    LOSSES = "losses"  # those of the developer's arm


ALL_CHECKS = frozenset(Check)


class Wrong(Exception):
    """What ends a proof: a reason, and the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one gate found out about one Program; `message` is for people, `evidence` is sorted by name."""

    gate: Gate
    outcome: Outcome
    reason: Reason = Reason.OK
    message: str = ""
    evidence: tuple[tuple[str, EvidenceValue], ...] = ()

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.PASS) != (self.reason is Reason.OK):
            raise ValueError(
                f"reason is ok exactly when a Verdict is pass (got {self.outcome} and {self.reason})"
            )
        if self.outcome is not Outcome.PASS and not self.message:
            raise ValueError(f"a Verdict of {self.outcome} needs a message for people")
        if tuple(sorted(self.evidence)) != self.evidence:
            raise ValueError("evidence of a Verdict must be sorted by name")

    @property
    def passed(self) -> bool:
        """True for pass only."""
        return self.outcome is Outcome.PASS

    def __getitem__(self, name: str) -> EvidenceValue:
        """One piece of evidence by name."""
        return dict(self.evidence)[name]


def evidence(**values: EvidenceValue) -> tuple[tuple[str, EvidenceValue], ...]:
    """Evidence as a Verdict holds it."""
    return tuple(sorted(values.items()))
