"""Synthetic cost models, and searches on them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core import catalog
from overlayccl_core.configuration import searches
from overlayccl_core.configuration.searches import Search
from overlayccl_core.costmodel.features import Feature, Features, features
from overlayccl_core.costmodel.price import Price
from overlayccl_core.costmodel.theta import Coefficient, FitStatus, Theta
from overlayccl_core.gates.equivalence import lossy_bound_of
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.search.archive import Archive, Base
from overlayccl_core.search.candidate import Origin
from overlayccl_core.search.judge import Judge, Pricing, Prover
from overlayccl_core.search.loop import SearchResult, Seeker
from overlayccl_core.search.proposer import Proposer
from overlayccl_core.search.proposers.offline import Offline
from overlayccl_core.stages.known_ways import known_ways_of

OFFLINE = searches.load("offline", Path(__file__).parents[2] / "config/searches")
PLAINEST = "one_by_one"  # of gradients
Cost = Callable[[Feature], float]
_GROUPS = re.compile(r"(node|network)\d*")


def plain(column: Feature) -> float:
    """Every collective costs 1000 us and its bytes, half of that beside others; local work costs little."""
    if column.increment:
        return 0.0
    if column.unit != "us":
        return 1e-3 if "alone" in column.name or "together" in column.name else 1e-4
    return 500.0 if "together" in column.name else 1000.0 if "alone" in column.name else 5.0


def favouring(kind: str) -> Cost:
    """`plain`, but one kind of collective is a hundred times as quick to call."""
    return lambda column: plain(column) / (100 if column.name.startswith(f"{kind}.") else 1)


def at_random(seed: int) -> Cost:
    """Coefficients that span a factor of 100; those of a group do not depend on its size."""

    def cost(column: Feature) -> float:
        name = _GROUPS.sub(r"\1", column.name)
        random = np.random.default_rng([seed, *name.encode()])
        return float(plain(column) * 10 ** random.uniform(-1, 1))

    return cost


def us_of(counted: Features, cost: Cost) -> float:
    """What counted features cost."""
    return sum(amount * cost(column) for column, amount in counted.items())


def pricing_of(cost: Cost) -> Pricing:
    """Prices by such a model."""

    def price(program: Program) -> Price:
        us = us_of(features(program), cost)
        return Price(us=us, low_us=us, high_us=us, terms={})

    return price


def theta_of(programs: Iterable[Program], cost: Cost) -> Theta:
    """A Theta with the columns that some Programs need."""
    columns = sorted({column for program in programs for column in features(program)})
    return Theta(
        tuple(
            Coefficient(
                column=c, value=cost(c), low=cost(c), high=cost(c), status=FitStatus.FITTED, programs=1
            )
            for c in columns
        ),
        0.9,
        1.1,
        "synthetic",
    )


def bases_of(problem: Problem, *, only_developer: bool = False) -> list[Base]:
    """The strategies of a Problem's library that have a meaning there, developer's first.

    Of gradients that is one all_reduce a tensor here: small ones are one bucket of DDP, with nothing left to merge.
    """
    ways = [way for way in known_ways_of(problem) if way.role is not Role.DERIVED]
    if problem.case.problem == "grad_ar":
        ways = [replace(s, role=Role.DEVELOPER if s.name == PLAINEST else Role.OTHER) for s in ways]
        ways.sort(key=lambda way: way.name != PLAINEST)
    bases = []
    for way in ways:
        try:
            program = replay(way.recipe, problem)
        except NotApplicable:
            continue
        origin = Origin.DEVELOPER if way.role == "developer" else Origin.KNOWN
        bases.append(Base(program=program, recipe=way.recipe, origin=origin))
    return bases[:1] if only_developer else bases


def prover_of(problem: Problem) -> Prover:
    """Proofs against the reference, with its own error as the bound of lossy Programs."""
    reference = catalog.reference_program(problem)
    return Prover(reference=reference, lossy_bound=lossy_bound_of(reference, reference))


def archive_of(problem: Problem, pricing: Pricing, **fields: Any) -> Archive:
    """An empty archive; fields: others of it, and capabilities, memory_budget_bytes of its judge."""
    judge = {name: fields.pop(name) for name in ("capabilities", "memory_budget_bytes") if name in fields}
    return Archive(judge=Judge(pricing=pricing, **judge), prover=prover_of(problem), **fields)


def seeker_of(
    problem: Problem,
    pricing: Pricing,
    *,
    bases: Sequence[Base] | None = None,
    search: Search = OFFLINE,
    proxy: tuple[Archive, Sequence[Base]] | None = None,
    clock: Callable[[], float] = lambda: 0.0,
    **judge: Any,
) -> Seeker:
    """A search of a Problem, from developer alone unless told otherwise."""
    return Seeker(
        search=search,
        archive=archive_of(problem, pricing, **judge),
        bases=bases_of(problem, only_developer=True) if bases is None else bases,
        proxy=proxy,
        clock=clock,
    )


def found_at(problem: Problem, cost: Cost, by: Proposer | None = None, **options: Any) -> SearchResult:
    """What a search finds, by the rules unless told otherwise; options: of `seeker_of`."""
    seeker = seeker_of(problem, pricing_of(cost), **options)
    return seeker.result(by or Offline(seeker.search))
