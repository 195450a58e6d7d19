"""Parameters, work and largest Case of the configured models, before anything is started."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model, Work
from overlayccl_core.program.case import Case
from overlayccl_core.program.memory import peak_bytes
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A model with its batch split into so many microbatches. parameters: elements of the whole model.

    peak_bytes: peak of values on a rank, by the developer's Program of the largest Case.
    """

    model: str
    microbatches: int
    parameters: int
    work: Work | None
    largest: str
    peak_bytes: int


def sizes_of(model: Model, deployment: Deployment) -> Iterator[Sized]:
    """Yield a row for each split of the batch. ValueError if the model cannot be spread over the ranks."""
    parameters = sum(prod(shape) for _, shape in model.parameter_sizes())
    for microbatches in model.microbatches:
        cases = sorted(
            set(cases_of_model(model, deployment, microbatches).values()), key=lambda case: case.id
        )
        peaks = {case.id: peak_of(case) for case in cases}
        largest = max(peaks, key=lambda name: peaks[name])
        yield Sized(
            model=model.name,
            microbatches=microbatches,
            parameters=parameters,
            work=model.work(microbatches, deployment.ranks),
            largest=largest,
            peak_bytes=peaks[largest],
        )


@cache
def developers_of(case: Case) -> tuple[tuple[Problem, Program], ...]:
    """Return each direction of a Case with the developer's Program."""
    return tuple((problem, catalog.developer_program(problem)) for problem in catalog.directions(case))


def peak_of(case: Case) -> int:
    """Return the peak bytes of the developer's Programs of a Case on a rank, in either direction."""
    return max(peak_bytes(program) for _, program in developers_of(case))
