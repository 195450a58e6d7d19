"""What the configured models hold and compute, and their largest Case, before anything is started."""

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
    """A model whose batch is split into so many microbatches. parameters: elements of the whole model.

    peak_bytes: of the values that the developer's Program of its largest Case holds at a time on a rank.
    """

    model: str
    microbatches: int
    parameters: int
    work: Work | None
    largest: str
    peak_bytes: int


def sizes_of(model: Model, deployment: Deployment) -> Iterator[Sized]:
    """A row for each way to split the batch. ValueError where the model cannot be spread over the ranks."""
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
    """Each direction of a Case with the developer's Program of it."""
    return tuple((problem, catalog.developer_program(problem)) for problem in catalog.directions(case))


def peak_of(case: Case) -> int:
    """Bytes that the developer's Programs of a Case hold at most on a rank, in either direction."""
    return max(peak_bytes(program) for _, program in developers_of(case))
