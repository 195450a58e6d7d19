"""Prices in the step: of a candidate at the sites of a model, and of a trained arm."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.costmodel.beside import Beside
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.library import Role
from overlayccl_core.program.lowering import lets_work, lower
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program
from overlayccl_core.step.driver import StuckStep
from overlayccl_core.step.price import Costs, TimedSegment, costs_of, step_us
from overlayccl_core.step.segment import Outline
from overlayccl_core.tables.plain import rebuilt

PricedSite = tuple[str, str, str]  # site, Case, direction


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStep:
    """A model's step at a count of microbatches. sites: in the step driver's order of preference."""

    model: str
    microbatches: int
    sites: tuple[PricedSite, ...]

    @property
    def places(self) -> set[Place]:
        return {(case, direction) for _, case, direction in self.sites}


def steps_of(text: str) -> list[ModelStep]:
    """Read the steps in a rule's option."""
    return rebuilt(list[ModelStep], text)


class StepPricer:
    """Prices of steps on a deployment."""

    def __init__(self, segments: pl.DataFrame, theta: pl.DataFrame, beside: pl.DataFrame) -> None:
        """Take the tables; `segments` of all models."""
        self._segments = segments
        rows = theta.iter_rows(named=True)
        self._theta = Theta.from_rows(rows, residual_low=1.0, residual_high=1.0)  # no interval is asked for
        self._beside = Beside(beside.iter_rows(named=True))
        self._costs: dict[str, Costs | None] = {}
        self._timed: dict[tuple[Any, ...], list[TimedSegment]] = {}

    def us(self, step: ModelStep, programs: Mapping[Place, Program]) -> float | None:
        """Return the time of a step with a Program at each place; None without the times of segments or calls.

        None, too, for orders that wait for each other.
        """
        at_sites = {site: programs[case, direction] for site, case, direction in step.sites}
        segments = self._segments_of(step, at_sites.values())
        modules = {}
        for site, program in at_sites.items():
            if (costs := self._costs_of(program)) is None:
                return None
            modules[site] = program, costs
        try:
            return step_us(modules, segments) if segments else None
        except StuckStep:
            return None

    def _costs_of(self, program: Program) -> Costs | None:
        if program.digest not in self._costs:
            self._costs[program.digest] = costs_of(program, self._theta, self._beside)
        return self._costs[program.digest]

    def _segments_of(self, step: ModelStep, programs: Iterable[Program]) -> list[TimedSegment]:
        """The segments of the kind of step that the Programs' modules ask for, as `training/arm.py` does."""
        programs = list(programs)
        kind = {
            "model": step.model,
            "microbatches": step.microbatches,
            "early": any(program.starts_early for program in programs),
            "leaves_work": any(lets_work(one.problem, step) for one in programs for step in lower(one)),
        }
        key = tuple(kind.values())
        if key not in self._timed:
            self._timed[key] = [
                TimedSegment(
                    outline=rebuilt(Outline, row["outline_json"]), us=row["duration_us"] / row["cores"]
                )
                for row in self._segments.filter(**kind).iter_rows(named=True)
            ]
        return self._timed[key]


class CandidatePrices:
    """Steps with one candidate at its sites, and the developer's Programs at all others."""

    def __init__(self, pricer: StepPricer, steps: Iterable[ModelStep], ways: pl.DataFrame) -> None:
        """Take `known_ways` of all Problems in the steps."""
        self._pricer = pricer
        self._steps = list(steps)
        developers = ways.filter(pl.col("role") == Role.DEVELOPER).iter_rows(named=True)
        self._developers = {(row["case"], row["direction"]): loads(row["program_json"]) for row in developers}

    def us(self, place: Place, program: Program) -> dict[tuple[str, int], float | None]:
        """Return (model, microbatches) -> the step with the Program at a place, for all models that have it."""
        programs = {**self._developers, place: program}
        return {
            (step.model, step.microbatches): self._pricer.us(step, programs)
            for step in self._steps
            if place in step.places
        }
