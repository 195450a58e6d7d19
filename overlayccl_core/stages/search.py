"""search: from the proven strategies of every Case and direction to cheaper Programs, priced and proven.

Needs no ranks. The same for the same input, unless a guard of seconds cuts it, which it then says.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.searches import Search
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.prices import price_columns, theta_of
from overlayccl_core.gates import equivalence
from overlayccl_core.gates.verdict import Gate, Outcome, Reason, Verdict, evidence
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.library import Role
from overlayccl_core.program.numerics import LOSSY_TOLERANCE
from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.search.archive import Base, Clock
from overlayccl_core.search.candidate import Candidate, Source
from overlayccl_core.search.ending import Ending, Nothing, ending_of, without_search
from overlayccl_core.search.judge import INFEASIBLE, Judge, Prover, pricing
from overlayccl_core.search.loop import Found, Seeker
from overlayccl_core.search.proxy import is_large, pricing_as
from overlayccl_core.tables.fingerprints import one_fingerprint

Row = dict[str, Any]
FOUND = "found-"
SHORTEST = 8  # digits of a value_digest in a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What a search knows of the deployment."""

    theta: Theta
    capabilities: Capabilities | None
    memory_budget_bytes: int | None


def run(
    deployment: Deployment,
    search: Search,
    cases: pl.DataFrame,
    seeds: pl.DataFrame,
    theta: pl.DataFrame,
    fidelity: pl.DataFrame,
    capabilities: pl.DataFrame,
    *,
    clock: Clock,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """The rows of `sketches`, `candidates` and `search_ends`. clock: seconds from any start on."""
    one_fingerprint({"theta": theta, "fidelity": fidelity}, "snakemake --profile local --forcerun fit")
    here = Deployed(
        theta=theta_of(theta, fidelity),
        capabilities=Capabilities.from_rows(capabilities.iter_rows(named=True)),
        memory_budget_bytes=deployment.memory_budget_bytes,
    )
    tables: dict[str, list[Row]] = {"sketches": [], "candidates": [], "search_ends": []}
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            mine = seeds.filter(
                (pl.col("case") == case.id) & (pl.col("direction") == problem.direction.value)
            )
            for name, rows in searched(
                problem, list(mine.iter_rows(named=True)), search, here, clock, progress
            ):
                tables[name] += rows
    return tables


def searched(
    problem: Problem,
    seeds: list[Row],
    search: Search,
    here: Deployed,
    clock: Clock,
    progress: Callable[[str], None],
) -> Iterator[tuple[str, list[Row]]]:
    """(table, rows) of one Case and direction: why the search ended; what it tried and found, if it began.

    It does not begin where nothing is exchanged, or where nothing stands to begin with.
    """
    head = {"case": problem.case.id, "direction": problem.direction.value}

    def end(ending: Ending) -> tuple[str, list[Row]]:
        progress(f"{head['case']} {head['direction']}: {ending.message}")
        return "search_ends", [head | _end_row(ending, search, here.theta)]

    reference = catalog.reference_program(problem)
    if not simplify(reference).collectives:
        yield end(without_search(Nothing.NO_EXCHANGE))
        return
    rows = [row for row in seeds if _begins(row)]
    if not rows:
        yield end(without_search(Nothing.NO_BASE))
        return
    bases = [_base(row) for row in rows]
    prover = Prover(reference=reference, lossy_bound=_lossy_bound(bases, reference))
    for base, row in zip(bases, rows, strict=True):
        if row["equivalence"] is not None:
            prover.know(base.program, _verdict(row))
    judge = Judge(
        pricing=pricing(here.theta),
        capabilities=here.capabilities,
        memory_budget_bytes=here.memory_budget_bytes,
    )
    started = clock()
    seeker = Seeker(judge=judge, prover=prover, search=search, clock=lambda: clock() - started)
    small = _small_case(problem.case, bases, search)
    if small is None:
        found = seeker.directly(bases)
    else:
        judge_small = Judge(pricing=pricing_as(small, problem.case, here.theta))
        found = seeker.through_proxy(judge_small, _replayed(bases, problem.direction, small), bases)
    named = names(found.candidates, seeds)
    yield end(ending_of(found, named, search, small))
    yield "sketches", [head | row for row in _sketch_rows(found)]
    yield "candidates", [head | row for row in _candidate_rows(found, named, prover, search, here.theta)]


def _begins(row: Row) -> bool:
    """Whether a search may begin with a seed: it is right, or would be where it can run."""
    if row["equivalence"] is not None:
        return bool(row["equivalence"] == Outcome.PASS)
    return row["status"] == "program" and row["reason"] in INFEASIBLE


def _base(row: Row) -> Base:
    return Base(
        program=loads(row["program_json"]),
        recipe=Recipe.from_json(json.loads(row["recipe"])),
        source=Source.DEVELOPER if row["role"] == Role.DEVELOPER else Source.SEED,
    )


def _verdict(row: Row) -> Verdict:
    """The verdict of a seed's proof."""
    return Verdict(
        gate=Gate.EQUIVALENCE,
        outcome=Outcome(row["equivalence"]),
        reason=Reason(row["reason"]),
        message=row["message"],
        evidence=evidence(numerics=row["numerics"]),
    )


def _lossy_bound(bases: Iterable[Base], reference: Program) -> float:
    """As far off as what practitioners write is in its own dtypes."""
    developer = next((b.program for b in bases if b.source is Source.DEVELOPER), None)
    return LOSSY_TOLERANCE if developer is None else equivalence.lossy_bound_of(developer, reference)


def _small_case(case: Case, bases: list[Base], search: Search) -> Case | None:
    """The Case to search in a large one's place."""
    first = next((b for b in bases if b.source is Source.DEVELOPER), bases[0])
    return catalog.proxy(case) if is_large(case, len(first.program.nodes), search.proxy) else None


def _replayed(bases: Iterable[Base], direction: Direction, small: Case) -> Iterator[Base]:
    """The same strategies at the small Case; those that say no there are left out."""
    problem = next(p for p in catalog.directions(small) if p.direction is direction)
    for base in bases:
        try:
            program = replay(base.recipe, problem)
        except (NotApplicable, Rejected):
            continue
        yield Base(program=program, recipe=base.recipe, source=base.source)


# ------------------------------------------------------------------------------------------------- rows
def names(candidates: Iterable[Candidate], seeds: Iterable[Row]) -> dict[str, str]:
    """program -> the candidate's name: a seed's if it is the seed or computes the same, else of its own."""
    by_program: dict[str, str] = {}
    by_value: dict[str, str] = {}
    for row in seeds:
        if row["status"] == "program":
            by_program.setdefault(row["program"], row["strategy"])
            by_value.setdefault(row["value_digest"], row["strategy"])
    found: dict[str, str] = {}
    for candidate in candidates:
        program = candidate.program
        known = by_program.get(program.digest) or by_value.get(program.value_digest)
        found[program.digest] = known or _new_name(program.value_digest, found)
    return found


def _new_name(value_digest: str, taken: Mapping[str, str]) -> str:
    used = set(taken.values())
    names = (FOUND + value_digest[:digits] for digits in range(SHORTEST, len(value_digest) + 1))
    return next(name for name in names if name not in used)


def _sketch_rows(found: Found) -> Iterator[Row]:
    for number, sketch in enumerate(found.sketches):
        yield {
            "number": number,
            "parent": sketch.parent,
            "source": sketch.source.value,
            "step": json.dumps(sketch.steps[-1]) if sketch.steps else None,
            "rationale": sketch.rationale,
            "outcome": sketch.outcome.value,
            "value_digest": sketch.value_digest,
            "message": sketch.message,
            "stage": sketch.stage.value,
        }


def _candidate_rows(
    found: Found, named: Mapping[str, str], prover: Prover, search: Search, theta: Theta
) -> Iterator[Row]:
    elites = {c.program.digest for c in found.elites}
    for candidate in found.candidates:
        program, legal = candidate.program, candidate.legal
        proof = prover.verdicts.get(program.digest)
        deciding = proof or legal
        kept = program.digest in elites or proof is not None
        yield {
            "candidate": named[program.digest],
            "search": search.name,
            "source": candidate.source.value,
            "parent": candidate.parent,
            "recipe": candidate.recipe.dumps(),
            "family": candidate.family,
            "numerics": None if proof is None else dict(proof.evidence).get("numerics"),
            "program": program.digest,
            "value_digest": program.value_digest,
            "program_json": dumps(program) if kept else None,
            "collectives": len(program.collectives),
            "wire_bytes": round(sum(map(wire_bytes, program.collectives))),
            "peak_bytes": dict(legal.evidence).get("peak_bytes"),
            "legality": legal.outcome.value,
            "equivalence": None if proof is None else proof.outcome.value,
            "reason": deciding.reason.value,
            "message": deciding.message,
            "elite": program.digest in elites,
            **price_columns(candidate.price if candidate.feasible else None),
            "fingerprint": theta.fingerprint,
        }


def _end_row(ending: Ending, search: Search, theta: Theta) -> Row:
    return {
        "search": search.name,
        "why": ending.why.value,
        "proposals": ending.proposals,
        "programs": ending.programs,
        "families": ending.families,
        "message": ending.message,
        "fingerprint": theta.fingerprint,
    }
