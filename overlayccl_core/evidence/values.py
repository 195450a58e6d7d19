"""Checks of the values of Programs on real ranks, before any timing."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from overlayccl_core.backends.measured import Job
from overlayccl_core.backends.trials import Observed, Trial
from overlayccl_core.gates.on_ranks import (
    Meaning,
    Values,
    inputs_of,
    meaning,
    small_inputs,
    wrong_values,
)
from overlayccl_core.gates.small_values import Small, itself, one_atom, small_of
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.timing.batch import ValueCheck

SEED = 0  # of the inputs of checks


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenJob:
    """A proven Program to be timed.

    reference: it defines the right values at its Case and direction; if it fails, nothing is timed.
    """

    job: Job
    numerics: NumericsClass
    reference: bool = False


class _Place:
    """A Case and direction: the inputs of its Programs tried as they are, and the reference's values at these.

    A Program reduced to atoms has inputs of its own, since each has other atoms.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.reference: Program | None = None

    @cached_property
    def inputs(self) -> Values:
        """port -> [ranks of the deployment, elements]."""
        return inputs_of(self.problem, SEED)

    @cached_property
    def right(self) -> Meaning | None:
        """The reference's values, right for all its proven Programs; None if they are too large to compute."""
        try:
            return meaning(itself(self.reference), self.inputs) if self.reference else None
        except TooLarge:
            return None


def value_check(listed: Iterable[ProvenJob]) -> ValueCheck:
    """Return the check of the jobs' values. A failed reference fails the batch."""
    proven = {one.job.key: one for one in listed}
    places: dict[tuple[str, str], _Place] = {}
    of: dict[str, _Place] = {}
    for key, one in proven.items():
        problem = one.job.program.problem
        place = places.setdefault((problem.case.id, problem.direction), _Place(problem))
        of[key] = place
        if one.reference:
            place.reference = one.job.program

    @cache
    def small(key: str) -> Small | TooLarge:
        try:
            return small_of(proven[key].job.program)
        except TooLarge as error:
            return error

    def trial(job: Job) -> Trial:
        given = small(job.key)
        if isinstance(given, TooLarge):
            given = one_atom(job.program.problem)
        if not given.input_tiles:
            return Trial(job=job, inputs=of[job.key].inputs)
        inputs = given.told(small_inputs(given, SEED))
        return Trial(job=job, inputs=inputs, input_tiles=given.input_tiles, output_tiles=given.output_tiles)

    def wrong(trial: Trial, seen: Observed) -> str:
        job, numerics, given = trial.job, proven[trial.job.key].numerics, small(trial.job.key)
        if isinstance(given, TooLarge):
            raise given
        allowed = tolerance(numerics, job.program)
        if not given.input_tiles:
            return wrong_values(given, allowed, trial.inputs, seen.outputs, equal=of[job.key].right)
        inputs, copies = small_inputs(given, SEED), (seen.outputs, seen.farthest)
        found = (wrong_values(given, allowed, inputs, copy, bits=seen.bits) for copy in copies)
        return next(filter(None, found), "")

    return ValueCheck(
        trial=trial, wrong=wrong, needed=frozenset(key for key, one in proven.items() if one.reference)
    )
