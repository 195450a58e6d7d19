"""known_ways: every strategy of a Problem's library at every Case, forward and backward, traced and proven."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.verdict_rows import judged_columns
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.json_form import dumps
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.library import BACKWARD, LIBRARY, Role, read_library
from overlayccl_core.program.numerics import NumericsClass, tolerance
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, TransposeOf, replay
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.known_ways import KNOWN_WAYS, WayStatus
from overlayccl_core.tables.rule_job import RuleJob

Row = dict[str, Any]
_PROGRAM_COLUMNS = (
    *("program", "value_digest", "program_json", "collectives", "wire_bytes"),
    *("peak_bytes", "numerics", "equivalence"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWay:
    """A strategy listed for a Problem, not yet traced."""

    name: str
    role: Role
    recipe: Recipe


def main(job: RuleJob) -> None:
    """Write the table known_ways of one Problem."""
    rows = run(load(job.option("deployment")), job.read(CASES), job.read(CAPABILITIES), progress=job.say)
    job.write({KNOWN_WAYS: rows})


def run(
    deployment: Deployment, cases: pl.DataFrame, capabilities: pl.DataFrame, progress: Callable[[str], None]
) -> list[Row]:
    """Return the rows of `known_ways`: Programs, roles and verdicts; the same for the same input."""
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    rows: list[Row] = []
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            here = list(known_way_rows(problem, can, deployment.memory_budget_bytes))
            proven = sum(r["equivalence"] == Outcome.PASS for r in here)
            progress(f"{case.id} {problem.direction.value}: {proven} of {len(here)} strategies proven")
            rows += here
    return rows


def known_way_rows(
    problem: Problem, capabilities: Capabilities | None, memory_budget_bytes: int | None
) -> Iterator[Row]:
    """Yield one row for each strategy listed for a Problem; none for a derived one whose values are known.

    A lossy strategy may be as far off in its own dtypes as the developer's, which comes before it.
    """
    reference = catalog.reference_program(problem)
    lossy_bound = tolerance(NumericsClass.LOSSY)
    known: set[str] = set()

    def is_legal(program: Program) -> Verdict:
        return legality.check(program, capabilities, memory_budget_bytes)

    for way in _with_one_developer(problem, known_ways_of(problem), is_legal):
        head = {
            "case": problem.case.id,
            "direction": problem.direction.value,
            "strategy": way.name,
            "role": way.role.value,
            "recipe": way.recipe.dumps(),
        }
        try:
            program = replay(way.recipe, problem)
        except NotApplicable as reason:
            yield head | _without_program(
                WayStatus.NOT_APPLICABLE, Outcome.NOT_APPLICABLE, Reason.NOT_APPLICABLE, str(reason)
            )
        except Rejected as error:
            yield head | _without_program(
                WayStatus.REJECTED, Outcome.FAIL, Reason.NOT_IN_LANGUAGE, str(error)
            )
        else:
            if way.role is Role.DERIVED and program.value_digest in known:
                continue
            known.add(program.value_digest)
            legal = is_legal(program)
            proof = None
            if legal.outcome is Outcome.PASS:
                if way.role is Role.DEVELOPER:
                    lossy_bound = equivalence.lossy_bound_of(program, reference)
                proof = equivalence.prove(program, reference, lossy_bound=lossy_bound)
            yield head | _with_program(program, legal, proof)


def known_ways_of(problem: Problem) -> list[KnownWay]:
    """Return the library of a forward Problem.

    A backward has the library of an equal Problem and the transposes of the forward's, or (if the Problem is not
    linear) its own. If no Problem is equal, people run the transposes: these have the roles of the forward's.
    Several developers are listed by preference.
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
            KnownWay(
                name=f"simplified_transpose_of_{one.name}",
                role=Role.OTHER if equal and one.role is not Role.DERIVED else one.role,
                recipe=Recipe(base=TransposeOf(recipe=one.recipe)),
            )
            for one in library
        ),
    ]


def _library(problem: str, name: str = LIBRARY) -> list[KnownWay]:
    listed = read_library(catalog.library_source(problem), name).strategies
    return [KnownWay(name=name, role=role, recipe=Recipe(base=name)) for name, role in listed]


def _with_one_developer(
    problem: Problem, ways: Iterable[KnownWay], is_legal: Callable[[Program], Verdict]
) -> Iterator[KnownWay]:
    """Keep one developer: the first of several that the library can call here, or else the last."""
    *preferred, last = [way for way in ways if way.role is Role.DEVELOPER]
    developer = next((way for way in preferred if _runs(way, problem, is_legal)), last)
    for way in ways:
        other = way.role is Role.DEVELOPER and way is not developer
        yield replace(way, role=Role.OTHER) if other else way


def _runs(way: KnownWay, problem: Problem, is_legal: Callable[[Program], Verdict]) -> bool:
    try:
        return is_legal(replay(way.recipe, problem)).passed
    except (NotApplicable, Rejected):
        return False


def _without_program(status: WayStatus, legal: Outcome, reason: Reason, message: str) -> Row:
    fields = {"status": status, "legality": legal.value, "reason": reason.value, "message": message}
    return fields | dict.fromkeys(_PROGRAM_COLUMNS)


def _with_program(program: Program, legal: Verdict, proof: Verdict | None) -> Row:
    judged = judged_columns(program, legal, proof)
    return {"status": WayStatus.PROGRAM, "program_json": dumps(program), **judged}
