"""The judgement of a Program: legality here, price, family, proof."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from overlayccl_core.costmodel.price import Price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.program import Program
from overlayccl_core.program.substitution import without_labels
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.candidate import Candidate, Origin
from overlayccl_core.search.family import family_of, is_lossy

INFEASIBLE = (Reason.UNSUPPORTED, Reason.MEMORY)

Pricing = Callable[[Program], Price]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """The facts of a deployment. capabilities, memory_budget_bytes: None restricts nothing."""

    theta: Theta
    capabilities: Capabilities | None
    memory_budget_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Checks and prices; capabilities and memory as in `DeploymentFacts`."""

    pricing: Pricing
    capabilities: Capabilities | None = None
    memory_budget_bytes: int | None = None

    def candidate(
        self, program: Program, recipe: Recipe, origin: Origin, parent: str | None = None
    ) -> Candidate | Verdict:
        """Return a Program with family and price; the verdict if no deployment could ever run it."""
        legal = legality.check(program, self.capabilities, self.memory_budget_bytes)
        if not legal.passed and legal.reason not in INFEASIBLE:
            return legal
        return Candidate(
            program=program,
            recipe=recipe,
            origin=origin,
            parent=parent,
            legal=legal,
            price=self.pricing(program),
            family=family_of(program, feasible=legal.passed),
            lossy=is_lossy(program),
        )


@dataclass(slots=True, kw_only=True)
class Prover:
    """Proofs against one reference, one for all Programs with equal values.

    Labels and schedule do not change a value, and proofs ignore both. verdicts: by digest, of Programs that can
    run.
    """

    reference: Program
    lossy_bound: float
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    _of_values: dict[object, Verdict] = field(default_factory=dict)

    @classmethod
    def beside(cls, developer: Program | None, reference: Program) -> Self:
        """Return a prover; lossy Programs may be as far off as the developer's is in its own dtypes."""
        if developer is None:
            return cls(reference=reference, lossy_bound=tolerance(NumericsClass.LOSSY))
        return cls(reference=reference, lossy_bound=equivalence.lossy_bound_of(developer, reference))

    def know(self, program: Program, verdict: Verdict) -> None:
        """Take over an earlier verdict."""
        self.verdicts[program.digest] = verdict
        self._of_values.setdefault(_values(program), verdict)

    def verdict_on(self, program: Program) -> Verdict:
        """Return the proof of a Program, able to run here or not; made once for equal values."""
        values = _values(program)
        if values not in self._of_values:
            self._of_values[values] = equivalence.prove(program, self.reference, lossy_bound=self.lossy_bound)
        return self._of_values[values]

    def proven(self, candidate: Candidate) -> bool:
        """Whether a candidate may be run: feasible, and equal to the reference."""
        if not candidate.feasible:
            return False
        program = candidate.program
        if program.digest not in self.verdicts:
            self.verdicts[program.digest] = self.verdict_on(program)
        return self.verdicts[program.digest].passed


def _values(program: Program) -> object:
    """Return a key, equal for Programs that differ in labels and schedule only."""
    return frozenset(without_labels(program.outputs).items())
