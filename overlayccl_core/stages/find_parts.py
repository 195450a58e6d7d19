"""find_parts: the arms between the developer's calls and the deployed ones of one model, proven. Needs no ranks.

A chain of steps leads from the developer's Program to the deployed one at every Case (`rewrites/chains.py`). A set
of factors takes its steps at all Cases of a model at once. Without the factor `microbatches` the same steps are
taken at the Cases of the developer's own count. Every Program is legal here and proven.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.choices import ProblemChoice, choices_of, deployed_rows
from overlayccl_core.evidence.part_arms import (
    MICROBATCHES,
    MOST_ARMS,
    SAME_CALLS,
    ComparedParts,
    arm_of,
    compared,
    in_order,
    nearest,
    sets_to_time,
)
from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.gates import legality
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.effects import NONE, Factors
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.code_lines import lines_of
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.problem import Place, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.chains import Chained, ChainLink, Replayed, chain, chained
from overlayccl_core.rewrites.recipe import Recipe, SourceOf, replay, sources
from overlayccl_core.sandbox.tracing import trace_confined
from overlayccl_core.search.judge import Prover
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.decompose import PART_ARMS, PartRole
from overlayccl_core.tables.deployed import DEPLOYED, SPLITS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.sketches import SKETCHES

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table part_arms of one model."""
    rows = run(
        load(job.option("deployment")),
        load_model(job.option("model")),
        choices_of(job),
        job.read(SPLITS),
        job.read(DEPLOYED),
        Capabilities.from_rows(job.read(CAPABILITIES).iter_rows(named=True)),
        sources(job.read_all(SKETCHES)["source"].drop_nulls()),
        progress=job.say,
    )
    job.write({PART_ARMS: rows})


def run(
    deployment: Deployment,
    model: Model,
    problems: Mapping[str, ProblemChoice],
    splits: pl.DataFrame,
    deployed: pl.DataFrame,
    capabilities: Capabilities | None,
    source_of: SourceOf | None = None,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `part_arms`. problems: at the model's sites; splits, deployed: the tables."""
    sides = compared(model.name, splits)
    if sides.nothing:
        progress(f"{model.name}: nothing to split: {sides.nothing}")
        return []
    arms = PartArms(
        model,
        deployment,
        problems,
        deployed,
        capabilities,
        lambda recipe, problem: replay(recipe, problem, source_of, trace_confined),
    )
    return arms.rows(sides, progress)


@dataclass(frozen=True, kw_only=True)
class _At:
    """A Case and direction of a step, with the developer's row of `finalists` there. site: the first with it."""

    site: str
    problem: Problem
    developer: Row

    @cached_property
    def program(self) -> Program:
        return loads(self.developer["program_json"])

    @cached_property
    def prover(self) -> Prover:
        return Prover.beside(self.program, catalog.reference_program(self.problem))


class PartArms:
    """The arms between the two sides of a model.

    Args:
        problems: The choice for each Problem at its sites.
        deployed: The table of that name.
    """

    def __init__(
        self,
        model: Model,
        deployment: Deployment,
        problems: Mapping[str, ProblemChoice],
        deployed: pl.DataFrame,
        capabilities: Capabilities | None,
        replayed: Replayed,
    ) -> None:
        self.model = model
        self.deployment = deployment
        self.capabilities = capabilities
        self.replayed = replayed
        placed = {place_of(row): row["instead"] for row in deployed.iter_rows(named=True) if row["instead"]}
        self.files: dict[Place, Row] = {}
        self.developers: dict[Place, Row] = {}
        self.contested: set[Place] = set()  # elsewhere nothing is exchanged, so nothing was chosen
        for decided in problems.values():
            self.files |= deployed_rows(decided, placed)
            self.contested |= set(map(place_of, decided.choice.iter_rows(named=True)))
            mine = decided.finalists.filter(pl.col("arm") == ArmName.DEVELOPER)
            self.developers |= {place_of(row): row for row in mine.iter_rows(named=True)}

    def rows(self, sides: ComparedParts, progress: Callable[[str], None]) -> list[Row]:
        """Return the rows of `part_arms`; [] if there is nothing to split."""
        if sides.nothing:
            return []
        links = {at.site: self._chain(at, progress) for at in self._places(sides.deployed)}
        differ = {link.factor.value for of_site in links.values() for link in of_site}
        if sides.deployed != sides.developer:
            differ.add(MICROBATCHES)
        factors = in_order(differ)
        if not factors:
            progress(f"{self.model.name}: nothing to split: {SAME_CALLS}")
            return []
        rows: dict[Factors, list[Row]] = {}
        arms: set[tuple[Any, ...]] = set()
        for sets in sets_to_time(factors):
            if rows and len(arms) >= MOST_ARMS:
                break
            for some in sets:
                if some not in rows:
                    rows[some] = list(self._rows(sides, factors, some, links))
                    arms.add(tuple((row["microbatches"], row["program"]) for row in rows[some]))
        progress(
            f"{len(factors)} factors ({', '.join(factors)}), {len(rows)} sets, {len(arms)} different arms"
        )
        return [row for of_set in rows.values() for row in of_set]

    def _places(self, microbatches: int) -> list[_At]:
        """Each Case and direction of a step once; ValueError where the developer's Program is missing."""
        cases = cases_of_model(self.model, self.deployment, microbatches)
        found: dict[Place, _At] = {}
        for site in sites_of(self.model, microbatches, self.deployment.ranks):
            problem = catalog.in_direction(cases[site.name], site.direction)
            if problem.place not in self.developers:
                raise ValueError(
                    f"model {self.model.name}, site {site.name}: table finalists has no developer's Program of "
                    f"{' '.join(problem.place)}: run the rule `finalists` again with this model configured"
                )
            developer = self.developers[problem.place]
            found.setdefault(problem.place, _At(site=site.name, problem=problem, developer=developer))
        return list(found.values())

    def _chain(self, at: _At, progress: Callable[[str], None]) -> tuple[ChainLink, ...]:
        """The links from the developer's Program to the deployed one."""
        if at.problem.place not in self.contested:
            return ()
        file, recipe = self.files.get(at.problem.place), self._recipe(at.problem.place)
        if file is None or recipe is None:
            raise ValueError(
                f"no file is deployed for {' '.join(at.problem.place)}: run the rule `deploy` again"
            )
        if file["program"] == at.developer["program"]:
            return ()
        links = chain(at.program, recipe, self.replayed)
        made = chained(at.program, links, self.replayed).program.digest
        if made != file["program"]:
            raise ValueError(
                f"{' '.join(at.problem.place)}: the recipe of {file['candidate']} gives another Program ({made}) "
                f"than the deployed one ({file['program']}): run the rules search and choose again"
            )
        progress(f"{' '.join(at.problem.place)}: {'; '.join(link.words for link in links)}")
        return links

    def _rows(
        self,
        sides: ComparedParts,
        factors: Sequence[str],
        some: Factors,
        links: Mapping[str, tuple[ChainLink, ...]],
    ) -> Iterator[Row]:
        """The rows of one set of factors."""
        microbatches = sides.deployed if MICROBATCHES in some else sides.developer
        role = {NONE: PartRole.DEVELOPER, frozenset(factors): PartRole.DEPLOYED}.get(some, PartRole.BETWEEN)
        for at in self._places(microbatches):
            wanted = [link for link in links[nearest(at.site, links)] if link.factor in some]
            made, numerics = self._made(at, wanted)
            yield {
                "model": self.model.name,
                "factors": ", ".join(in_order(some)),
                "role": role.value,
                "microbatches": microbatches,
                "arm": arm_of(some),
                "problem": at.problem.case.problem,
                "case": at.problem.case.id,
                "direction": at.problem.direction.value,
                "candidate": "; ".join(link.words for link in made.links) or at.developer["candidate"],
                "left_out": "; ".join(made.left_out),
                "steps": len(made.links),
                "lines": self._lines(at.problem.place),
                "numerics": numerics,
                "program": made.program.digest,
                "program_json": dumps(made.program),
            }

    def _made(self, at: _At, links: Sequence[ChainLink]) -> tuple[Chained, str]:
        """The Program after these links, and how it rounds; of links behind which it may not run, fewer."""
        left_out: tuple[str, ...] = ()
        while True:
            made = chained(at.program, links, self.replayed)
            left_out = (*made.left_out, *left_out)
            made = replace(made, left_out=left_out)
            if not made.links:
                return made, at.developer["numerics"]
            verdict = self._verdict(at, made.program)
            if verdict.passed:
                return made, str(verdict["numerics"])
            left_out = (f"{made.links[-1].words}: {verdict.message}", *left_out)
            links = made.links[:-1]

    def _verdict(self, at: _At, program: Program) -> Verdict:
        legal = legality.check(program, self.capabilities, self.deployment.memory_budget_bytes)
        return at.prover.verdict_on(program) if legal.passed else legal

    def _lines(self, place: Place) -> int | None:
        """The lines of the known way that is deployed at a place, or that a find begins at; None for a sketch."""
        recipe = self._recipe(place)
        if recipe is None or recipe.of_source:
            return None
        return lines_of(catalog.library_source(problem_of(place[0])))[recipe.first]

    def _recipe(self, place: Place) -> Recipe | None:
        file = self.files.get(place)
        return None if file is None else Recipe.from_json(json.loads(file["recipe"]))
