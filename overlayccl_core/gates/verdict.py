"""Verdict: the result of a gate. Evidence in, a Verdict out."""

from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.measuring.outcomes import Gate, Outcome

EvidenceValue = int | float | str


class Reason(StrEnum):
    """Reason of an outcome, as a code that programs compare."""

    OK = "ok"
    NOT_IN_LANGUAGE = "not_in_language"  # does not parse, trace, or make a Program
    NOT_APPLICABLE = "not_applicable"  # the strategy declines this Case
    ORDER = "order"  # a read waits for its own result through the model
    NOT_LINEAR = "not_linear"  # the Program of a linear Problem
    PROBLEM_NOT_LINEAR = "problem_not_linear"  # and it brings no data to try
    UNSUPPORTED = "unsupported"  # the library cannot make such a call
    MEMORY = "memory"
    OTHER_PROBLEM = "other_problem"  # Program and reference are of different Cases or ports
    WRONG_VALUE = "wrong_value"
    GAIN = "gain"  # right only by terms that cancel or vanish modulo the prime
    OUT_OF_RANGE = "out_of_range"  # right, but through values out of the range of floats
    DENOMINATOR = "denominator"  # coefficients too fine for the proof
    INACCURATE = "inaccurate"  # in its own dtypes, outside the bound of its class
    RANKS_DIFFER = "ranks_differ"  # bits of a replicated output depend on the rank
    TOO_LARGE = "too_large"  # not provable within the budget
    PARTS_JOINED = "parts_joined"  # not linear, joins parts (tokens, heads) in a way hidden from data
    BELOW_FLOOR = "below_floor"  # a physically impossible time
    CRASHED = "crashed"  # ended the process of a rank
    HUNG = "hung"  # ranks took no step
    RAISED = "raised"  # on real ranks
    NOT_MEASURED = "not_measured"
    OTHER_MATMULS = "other_matmuls"  # the step multiplies other matrices than the developer's
    WRONG_GRADIENT = "wrong_gradient"
    OTHER_LOSSES = "other_losses"  # trains differently than its numerics class explains
    NOT_FASTER = "not_faster"  # beyond noise, than a plainer contender
    NOT_PASSED = "not_passed"  # not chosen: an earlier gate stopped it
    SURPASSED = "surpassed"  # not chosen: another is faster beyond noise
    SAME_PROGRAM = "same_program"  # as a plainer arm


class ProofCheck(StrEnum):
    """Checks of legality and equivalence. All of them run; tests leave some out, to show what each one stops."""

    ORDER = "order"
    LINEAR = "linear"
    CAPABILITIES = "capabilities"
    MEMORY = "memory"
    VALUES = "values"  # equal modulo a prime
    INDEPENDENT_RANKS = "independent_ranks"  # inputs differ from rank to rank
    INDEPENDENT_PORTS = "independent_ports"  # inputs differ from port to port
    INVALID_INPUTS = "invalid_inputs"  # invalid elements of inputs are arbitrary
    GAIN = "gain"  # nothing cancels
    HOSTILE = "hostile"  # nonlinear Programs meet data made to break them
    RANGE = "range"  # no value out of the range of floats
    DENOMINATOR = "denominator"  # the prime cannot hide a difference
    NUMERICS = "numerics"  # accurate in its own dtypes
    REPLICAS = "replicas"  # replicated outputs have the same bits on all ranks


Checks = frozenset[ProofCheck]
ALL_CHECKS: Checks = frozenset(ProofCheck)


class Wrong(Exception):
    """End of a proof: a reason, and a message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of one gate for one Program; `message` is for people, `evidence` is sorted by name."""

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

    @classmethod
    def of(
        cls,
        gate: Gate,
        outcome: Outcome,
        reason: Reason = Reason.OK,
        message: str = "",
        **figures: EvidenceValue,
    ) -> "Verdict":
        """Make a Verdict with its evidence by name."""
        found = tuple(sorted(figures.items()))
        return cls(gate=gate, outcome=outcome, reason=reason, message=message, evidence=found)

    @property
    def passed(self) -> bool:
        """Whether the outcome is pass."""
        return self.outcome is Outcome.PASS

    def __getitem__(self, name: str) -> EvidenceValue:
        """Return one piece of evidence by name."""
        return dict(self.evidence)[name]
