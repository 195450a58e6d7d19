"""redeployed: the choices of another tree, replayed at the Cases of this one, proven and priced. Needs no ranks.

A recipe has no sizes, so it replays at any number of ranks. If a step of it does nothing here, the row says which,
and why. This run's own choices are replayed, too: they are timed beside the others.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import load
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence import searched as rows_
from overlayccl_core.evidence.predictions import rows_at
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.rewrites.rule import DoesNotApply
from overlayccl_core.sandbox.tracing import trace_confined
from overlayccl_core.search.candidate import Candidate, Origin
from overlayccl_core.search.judge import DeploymentFacts, Judge, Prover
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.redeploy import REDEPLOYED, SOURCE_CHOICES, Replayed
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import Why
from overlayccl_core.tables.table import read
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """A choice at a Case and direction: the first columns of its row, and its Program if it has one."""

    head: Row
    outcome: Replayed
    message: str = ""
    candidate: Candidate | None = None
    proof: Verdict | None = None


def main(job: RuleJob) -> None:
    """Write the tables redeployed and candidates of one Problem."""
    deployment = load(job.option("deployment"))
    facts = DeploymentFacts(
        theta=theta_of(job.read(THETA), job.read(FIDELITY)),
        capabilities=Capabilities.from_rows(job.read(CAPABILITIES).iter_rows(named=True)),
        memory_budget_bytes=deployment.memory_budget_bytes,
    )
    choices = read(SOURCE_CHOICES, job.file(SOURCE_CHOICES.name))
    tables = run(choices, job.read(CASES), job.read(KNOWN_WAYS), facts, progress=job.say)
    job.write({REDEPLOYED: tables["redeployed"], CANDIDATES: tables["candidates"]})


def run(
    choices: pl.DataFrame,
    cases: pl.DataFrame,
    ways: pl.DataFrame,
    facts: DeploymentFacts,
    *,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """Return the rows of `redeployed` and `candidates` of one Problem.

    Args:
        choices: Table `source_choices`, of all Problems.
        cases, ways: This deployment's, of the Problem.
    """
    trees = list(choices["tree"].unique(maintain_order=True))
    tables: dict[str, list[Row]] = {"redeployed": [], "candidates": []}
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            here = list(rows_at(ways, problem.place).iter_rows(named=True))
            judge = _Judge(problem, here, facts)
            replayed = [judge.replayed(tree, _choice(problem, choices, tree)) for tree in trees]
            found = {one.candidate.program.digest: one for one in replayed if one.candidate}
            named = rows_.names((one.candidate for one in found.values() if one.candidate), here)
            tables["redeployed"] += [_row(problem, one, named) for one in replayed]
            tables["candidates"] += _candidates(problem, found.values(), named, facts.theta)
            for one in replayed:
                progress(f"{' '.join(problem.place)}: {said(_row(problem, one, named))}")
    return tables


def said(row: Row) -> str:
    """Return what became of a choice, in a clause."""
    what = row["way"] or "its choice"
    outcome = str(row["outcome"]).replace("_", " ")
    return f"{what} of {row['tree']}: {outcome}{': ' * bool(row['message'])}{row['message']}"


def _choice(problem: Problem, choices: pl.DataFrame, tree: str) -> Row | None:
    """Return the choice of a tree at the Case with the same sizes, in the same direction."""
    here = (pl.col("tree") == tree) & (pl.col("problem") == problem.case.problem)
    rows = choices.filter(here & (pl.col("direction") == problem.direction.value)).iter_rows(named=True)
    by_case = {catalog.case_from_row(row): row for row in rows}
    like = catalog.same_sizes(problem.case, by_case)
    return None if like is None else by_case[like]


class _Judge:
    """Replays recipes at one Case and direction, and judges them as a search does."""

    def __init__(self, problem: Problem, ways: Sequence[Row], facts: DeploymentFacts) -> None:
        self.problem = problem
        self.judge = Judge(
            pricing=partial(price, theta=facts.theta),
            capabilities=facts.capabilities,
            memory_budget_bytes=facts.memory_budget_bytes,
        )
        developers = (row for row in ways if row["role"] == Role.DEVELOPER and rows_.begins(row))
        developer = next((loads(row["program_json"]) for row in developers), None)
        self.prover = Prover.beside(developer, catalog.reference_program(problem))

    def replayed(self, tree: str, choice: Row | None) -> _Replay:
        """Return what becomes of a tree's choice; None: it has none."""
        if choice is None:
            message = (
                f"{tree} has no choice for {' '.join(self.problem.place)}, nor for its sizes on other ranks"
            )
            head = dict.fromkeys(("source_case", "source_candidate", "way", "recipe"))
            return _Replay(head={"tree": tree, **head}, outcome=Replayed.NO_CASE, message=message)
        recipe = Recipe.from_json(json.loads(choice["recipe"]))
        head = {
            "tree": tree,
            "source_case": choice["case"],
            "source_candidate": choice["candidate"],
            "way": recipe.words,
            "recipe": choice["recipe"],
        }
        source = choice["source"]
        try:
            program = replay(recipe, self.problem, source and (lambda _: source), trace_confined)
        except DoesNotApply as error:  # names the step
            return _Replay(head=head, outcome=Replayed.NOT_REPLAYED, message=str(error))
        except (NotApplicable, Rejected, ValueError) as error:
            message = f"its beginning at {self.problem.case.id}: {error}"
            return _Replay(head=head, outcome=Replayed.NOT_REPLAYED, message=message)
        return self._judged(head, program, recipe)

    def _judged(self, head: Row, program: Program, recipe: Recipe) -> _Replay:
        origin = Origin.SKETCH if recipe.of_source else Origin.RULE if recipe.steps else Origin.KNOWN
        found = self.judge.candidate(program, recipe, origin)
        if not isinstance(found, Candidate):
            return _Replay(head=head, outcome=Replayed.NOT_LEGAL, message=found.message)
        if not found.feasible:
            return _Replay(
                head=head, outcome=Replayed.NOT_LEGAL, message=found.legal.message, candidate=found
            )
        proof = self.prover.verdict_on(program)
        outcome, message = (Replayed.PROVEN, "") if proof.passed else (Replayed.NOT_PROVEN, proof.message)
        return _Replay(head=head, outcome=outcome, message=message, candidate=found, proof=proof)


def _row(problem: Problem, one: _Replay, named: dict[str, str]) -> Row:
    found = one.candidate
    return {
        "case": problem.case.id,
        "direction": problem.direction.value,
        **one.head,
        "outcome": one.outcome.value,
        "message": one.message,
        "candidate": found and named[found.program.digest],
        "program": found and found.program.digest,
        "value_digest": found and found.program.value_digest,
        "predicted_us": found.price.us if found and found.feasible else None,
    }


def _candidates(
    problem: Problem, found: Iterable[_Replay], named: dict[str, str], theta: Theta
) -> Iterator[Row]:
    for one in found:
        assert one.candidate is not None
        name = named[one.candidate.program.digest]
        row = rows_.candidate_row(one.candidate, name, one.proof, Why.REDEPLOYED, theta)
        yield {"case": problem.case.id, "direction": problem.direction.value} | row
