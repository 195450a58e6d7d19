"""seed: every strategy of a Problem's library at every Case, forward and backward, traced and proven."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.verdict_rows import judged_columns
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Outcome, Reason, Verdict
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.library import BACKWARD, LIBRARY, Role, read_library
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.seeds import SEEDS, SeedStatus

Row = dict[str, Any]
_PROGRAM_COLUMNS = (
    *("program", "value_digest", "program_json", "collectives", "wire_bytes"),
    *("peak_bytes", "numerics", "equivalence"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A strategy that is listed for a Problem, before it is traced."""

    name: str
    role: Role
    recipe: Recipe


def main(job: RuleJob) -> None:
    """Table seeds of one Problem."""
    tables = run(load(job.option("deployment")), job.read(CASES), job.read(CAPABILITIES), progress=job.say)
    job.write({SEEDS: tables["seeds"]})


def run(
    deployment: Deployment, cases: pl.DataFrame, capabilities: pl.DataFrame, progress: Callable[[str], None]
) -> dict[str, list[Row]]:
    """The rows of the `seeds` table: Programs, roles and verdicts; the same for the same input."""
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    rows: list[Row] = []
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            here = list(seed_rows(problem, can, deployment.memory_budget_bytes))
            proven = sum(r["equivalence"] == Outcome.PASS for r in here)
            progress(f"{case.id} {problem.direction.value}: {proven} of {len(here)} strategies proven")
            rows += here
    return {"seeds": rows}


def seed_rows(
    problem: Problem, capabilities: Capabilities | None, memory_budget_bytes: int | None
) -> Iterator[Row]:
    """One row for each strategy that is listed for a Problem; a derived one that another Program is, has none.

    A lossy strategy may be as far off in its own dtypes as the developer's, which comes before it.
    """
    reference = catalog.reference_program(problem)
    lossy_bound = tolerance(NumericsClass.LOSSY)
    known: set[str] = set()

    def is_legal(program: Program) -> Verdict:
        return legality.check(program, capabilities, memory_budget_bytes)

    for seed in _with_one_developer(problem, seeds_of(problem), is_legal):
        head = {
            "case": problem.case.id,
            "direction": problem.direction.value,
            "strategy": seed.name,
            "role": seed.role.value,
            "recipe": seed.recipe.dumps(),
        }
        try:
            program = replay(seed.recipe, problem)
        except NotApplicable as reason:
            yield head | _without_program(
                SeedStatus.NOT_APPLICABLE, Outcome.NOT_APPLICABLE, Reason.NOT_APPLICABLE, str(reason)
            )
        except Rejected as error:
            yield head | _without_program(
                SeedStatus.REJECTED, Outcome.FAIL, Reason.NOT_IN_LANGUAGE, str(error)
            )
        else:
            if seed.role is Role.DERIVED and program.value_digest in known:
                continue
            known.add(program.value_digest)
            legal = is_legal(program)
            proof = None
            if legal.outcome is Outcome.PASS:
                if seed.role is Role.DEVELOPER:
                    lossy_bound = equivalence.lossy_bound_of(program, reference)
                proof = equivalence.prove(program, reference, lossy_bound=lossy_bound)
            yield head | _with_program(program, legal, proof)


def seeds_of(problem: Problem) -> list[Seed]:
    """The library; for a backward, the library of an equal Problem and the transposes, or (where the Problem is not
    linear) its own.

    Where no Problem is equal, people run what becomes of the forward: its transposes have its roles. Several
    developers are listed by preference.
    """
    case = problem.case
    library = _library(case.problem)
    if problem.direction is Direction.FORWARD:
        return library
    if not problem.linear:
        return _library(case.problem, BACKWARD)
    equal = catalog.plug_in(case.problem).equals_backward(case)
    return [
        *(_library(equal.problem) if equal else ()),
        *(
            Seed(
                name=f"simplified_transpose_of_{one.name}",
                role=Role.OTHER if equal and one.role is not Role.DERIVED else one.role,
                recipe=Recipe(base=TransposeOf(recipe=one.recipe)),
            )
            for one in library
        ),
    ]


def _library(problem: str, name: str = LIBRARY) -> list[Seed]:
    listed = read_library(catalog.library_source(problem), name).seeds
    return [Seed(name=name, role=role, recipe=Recipe(base=name)) for name, role in listed]


def _with_one_developer(
    problem: Problem, seeds: Iterable[Seed], is_legal: Callable[[Program], Verdict]
) -> Iterator[Seed]:
    """The same, the developer's being the first of several that the library can call here, or else the last."""
    *preferred, last = [seed for seed in seeds if seed.role is Role.DEVELOPER]
    developer = next((seed for seed in preferred if _runs(seed, problem, is_legal)), last)
    for seed in seeds:
        other = seed.role is Role.DEVELOPER and seed is not developer
        yield replace(seed, role=Role.OTHER) if other else seed


def _runs(seed: Seed, problem: Problem, is_legal: Callable[[Program], Verdict]) -> bool:
    try:
        return is_legal(replay(seed.recipe, problem)).passed
    except (NotApplicable, Rejected):
        return False


def _without_program(status: SeedStatus, legal: Outcome, reason: Reason, message: str) -> Row:
    fields = {"status": status, "legality": legal.value, "reason": reason.value, "message": message}
    return fields | dict.fromkeys(_PROGRAM_COLUMNS)


def _with_program(program: Program, legal: Verdict, proof: Verdict | None) -> Row:
    judged = judged_columns(program, legal, proof)
    return {"status": SeedStatus.PROGRAM, "program_json": dumps(program), **judged}
