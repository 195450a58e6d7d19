"""The ranks of a step as threads of one process: Programs by their NumPy meaning, the driver on every rank."""

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.program.arithmetics import Double
from overlayccl_core.program.case import Case
from overlayccl_core.program.meaning import evaluate
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program, Read, Write
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from overlayccl_core.step.driver import SiteModule, run_step
from overlayccl_core.step.segment import StepSegment
from overlayccl_core.training.pieces import pieces_of
from overlayccl_core.training.segments import Tensor
from overlayccl_core.training.worker import relative_error

PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Written:
    """A value becomes an output on one rank."""

    port: Port
    value: Tensor


def run_on_all(
    programs: Mapping[str, Program],
    ranks: int,
    segments_of: Callable[[int], Iterable[StepSegment]],
    made: Callable[[int, NDArray[np.float64]], None] = lambda _rank, _value: None,
) -> None:
    """One step on all ranks.

    programs: site -> Program, backward first; segments_of: rank -> its segments; made: told (rank, value) of what a
    Program is about to write, in float64. It is handed over in the dtype of the numbers that were read last.
    """
    barrier = Barrier(ranks, timeout=PATIENCE_S)
    given: dict[str, dict[Port, dict[int, Any]]] = {site: {} for site in programs}

    def generator(site: str, rank: int) -> Generator[Any, Any, None]:
        dtype = None
        [mine] = [m for m in programs[site].problem.case.members() if rank in m]
        for event in programs[site].events:
            match event:
                case Read(port):
                    answer = yield event
                    given[site].setdefault(port, {})[rank] = answer.numpy()
                    dtype = answer.dtype if answer.is_floating_point() else dtype
                case Write(port, node):
                    barrier.wait()  # all ranks have read what this one is made of
                    inputs = {
                        p: np.stack([x[r] for r in mine])
                        for p, x in list(given[site].items())
                        if len(x) == ranks
                    }
                    held, _ = evaluate({port: node}, inputs, Double(), len(mine))
                    value = held.pop(port).on(mine.index(rank)).copy()
                    yield Written(port, _noted(rank, value, made).to(dtype))

    def run(rank: int) -> None:
        modules = [
            SiteModule(
                site=site,
                generator=generator(site, rank),
                read=Read,
                shapes={port: spec.shape for port, spec in program.problem.outputs.items()},
            )
            for site, program in programs.items()
        ]
        try:
            run_step(modules, segments_of(rank))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(ranks) as pool:
        ends = [pool.submit(run, rank) for rank in range(ranks)]
    failures = [end.exception() for end in ends if end.exception() is not None]
    for failure in sorted(failures, key=lambda error: isinstance(error, BrokenBarrierError)):
        raise failure


def problem_at(case: Case, direction: Direction) -> Problem:
    """Of a Case in a direction that it has."""
    problem = catalog.build(case) if direction is Direction.FORWARD else catalog.backward(case)
    assert problem is not None
    return problem


def replayed(problem: Problem, strategy: str) -> Program:
    """A known way at a Problem; at the backward of a linear one what is derived from it."""
    recipe = Recipe(base=strategy)
    is_derived = problem.linear and problem.direction is Direction.BACKWARD
    return replay(Recipe(base=TransposeOf(recipe=recipe)) if is_derived else recipe, problem)


def programs_of(
    model: Model, deployment: Deployment, microbatches: int, strategies: Mapping[str, str]
) -> dict[str, Program]:
    """site of a model's step -> Program. strategies: Problem -> known way, else the developer's."""
    cases, programs = cases_of_model(model, deployment, microbatches), {}
    for site in sites_of(model, microbatches, deployment.ranks):
        case = cases[site.name]
        problem = problem_at(case, site.direction)
        named = strategies.get(site.problem)
        programs[site.name] = replayed(problem, named) if named else catalog.developer_program(problem)
    return programs


def worst_error(
    model: Model,
    deployment: Deployment,
    microbatches: int,
    programs: Mapping[str, Program],
    *,
    early: bool = False,
) -> float:
    """Of a gradient or a microbatch's loss (its mean over ranks), in double precision, relative to the unsharded
    model's."""
    cls, ranks = pieces_of(model), deployment.ranks
    replicas = list(model.replicas(ranks))
    full = {name: value.double() for name, value in cls.full_parameters(model, 1).items()}
    fed = [_in_double(cls.feed(model, seed=0, step=0, rank=rank, ranks=ranks)) for rank in range(ranks)]
    whole = cls(model, full)
    fed = [whole.settled(batch) for batch in fed]
    batches = [fed[replicas.index(replica)] for replica in sorted(set(replicas))]
    for batch in batches:
        (whole.whole(batch) / len(batches)).backward()
    shares = [cls(model, full, rank, ranks) for rank in range(ranks)]
    data = [cls.split(batch, microbatches) for batch in fed]
    steps = [share.step(mine, early=early) for share, mine in zip(shares, data, strict=True)]
    run_on_all(programs, ranks, lambda rank: steps[rank].segments(), lambda *_: None)
    errors = [
        relative_error(parameter.grad, share.shard(model, name, whole.parameters[name].grad, rank, ranks))
        for rank, share in enumerate(shares)
        for name, parameter in share.parameters.items()
    ]
    with torch.no_grad():
        for m in {m for step in steps for m in step.losses}:
            there = [rank for rank, step in enumerate(steps) if m in step.losses]
            got = torch.stack([steps[rank].losses[m] for rank in there]).mean()
            want = torch.stack([whole.whole(data[rank][m]) for rank in there]).mean()
            errors.append(relative_error(got, want))
    return max(errors)


def _in_double(batch: Any) -> Any:
    """The batch of a model of numbers in double precision; ids as they are."""
    numbers = isinstance(batch, torch.Tensor) and batch.is_floating_point()
    return batch.double() if numbers else batch


def _noted(rank: int, value: NDArray[np.float64], made: Callable[[int, NDArray[np.float64]], None]) -> Tensor:
    made(rank, value)
    return torch.from_numpy(value)
