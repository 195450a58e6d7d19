"""Are the values of Programs right on real ranks? What they must pass before they are timed."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.timing import ValueCheck
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.gates.on_ranks import Meaning, Values, inputs_of, meaning, wrong_values
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program

SEED = 0  # of the inputs with which values are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A proven Program that is to be timed. reference: it is what the others at its Case and direction are to mean.

    needed: where it fails, nothing is timed.
    """

    job: Job
    numerics: NumericsClass
    reference: bool = False
    needed: bool = False


class _Place:
    """A Case and direction: inputs of all its Programs, and what the reference means at them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.reference: Program | None = None

    @cached_property
    def inputs(self) -> Values:
        """port -> [ranks of the deployment, elements]."""
        return inputs_of(self.problem, SEED)

    @cached_property
    def right(self) -> Meaning | None:
        """All are proven to mean the same; None where that does not fit."""
        try:
            return meaning(self.reference, self.inputs) if self.reference else None
        except TooLarge:
            return None


def value_check(listed: Iterable[Proven]) -> ValueCheck:
    """What the jobs must pass. References are needed."""
    proven = {one.job.key: one for one in listed}
    places: dict[tuple[str, str], _Place] = {}
    of: dict[str, _Place] = {}
    for key, one in proven.items():
        problem = one.job.program.problem
        place = places.setdefault((problem.case.id, problem.direction), _Place(problem))
        of[key] = place
        if one.reference:
            place.reference = one.job.program

    def wrong(trial: Trial, seen: Observed) -> str:
        job = trial.job
        numerics, right = proven[job.key].numerics, of[job.key].right
        return wrong_values(job.program, numerics, trial.inputs, seen.outputs, right)

    return ValueCheck(
        trial=lambda job: Trial(job=job, inputs=of[job.key].inputs),
        wrong=wrong,
        needed=frozenset(key for key, one in proven.items() if one.reference or one.needed),
    )
