"""search: from the proven strategies of every Case and direction to cheaper Programs, priced and proven.

Needs no ranks. If its proposer asks nobody else, it gives the same for the same input, unless a guard of seconds
cuts it; then it says so.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.searches import Search
from overlayccl_core.costmodel.price import price
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence import searched as rows_
from overlayccl_core.evidence.asked import call_rows
from overlayccl_core.evidence.mended import failed_sketches
from overlayccl_core.evidence.predictions import rows_at
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.problem import Direction, Place, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.simplify import simplify
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.search import proposer
from overlayccl_core.search.archive import Archive, Base
from overlayccl_core.search.candidate import Origin, Stage
from overlayccl_core.search.ending import Ending, Nothing, ending_of, without_search
from overlayccl_core.search.judge import DeploymentFacts, Judge, Prover
from overlayccl_core.search.loop import Seeker
from overlayccl_core.search.proposal import FailedSketch
from overlayccl_core.search.proposer import Clock, Proposer
from overlayccl_core.search.proxy import capabilities_as, is_large, pricing_as
from overlayccl_core.search.ranking import priced, ranking
from overlayccl_core.tables.calls import CALLS
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.search_ends import SEARCH_ENDS
from overlayccl_core.tables.sketches import SKETCHES
from overlayccl_core.tables.theta import THETA
from overlayccl_core.tables.trials import TRIALS

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables sketches, candidates, search_ends and calls of one Problem.

    With the first round's tables among the inputs it is the second round.
    """
    answers, tree = Path(job.option("answers")), Path(job.option("tree"))
    tables = run(
        load(job.option("deployment")),
        Search.from_json(job.option("search")),
        job.read(CASES),
        job.read(KNOWN_WAYS),
        job.read(THETA),
        job.read(FIDELITY),
        job.read(CAPABILITIES),
        allowance=Allowance(answers=answers, tree=tree, max_usd=json.loads(job.option("max_usd"))),
        clock=monotonic,
        progress=job.say,
        failed=failed_sketches(*map(job.read, (TRIALS, CANDIDATES, SKETCHES))) if job.has(TRIALS) else None,
    )
    job.write({table: tables[table.name] for table in (SKETCHES, CANDIDATES, SEARCH_ENDS, CALLS)})


def run(
    deployment: Deployment,
    search: Search,
    cases: pl.DataFrame,
    ways: pl.DataFrame,
    theta: pl.DataFrame,
    fidelity: pl.DataFrame,
    capabilities: pl.DataFrame,
    *,
    allowance: Allowance,
    clock: Clock,
    progress: Callable[[str], None],
    failed: tuple[FailedSketch, ...] | None = None,
) -> dict[str, list[Row]]:
    """Return the rows of `sketches`, `candidates`, `search_ends` and `calls`.

    Args:
        allowance: Folder and allowed cost of a language model's answers, for a search that asks one.
        clock: Seconds from any start on.
        failed: Failed sketches for the second round; None: it is the first.
    """
    one_fingerprint({"theta": theta, "fidelity": fidelity}, f"{snakemake()} --forcerun fit")
    facts = DeploymentFacts(
        theta=theta_of(theta, fidelity),
        capabilities=Capabilities.from_rows(capabilities.iter_rows(named=True)),
        memory_budget_bytes=deployment.memory_budget_bytes,
    )
    cases_ = map(catalog.case_from_row, cases.iter_rows(named=True))
    problems = {problem.place: problem for case in cases_ for problem in catalog.directions(case)}
    if failed == ():
        progress("no sketch failed on the ranks, so nobody is asked again")
        row = rows_.end_row(without_search(Nothing.NONE_FAILED), search, facts.theta)
        ends = [{"case": case, "direction": direction} | row for case, direction in problems]
        return {"sketches": [], "candidates": [], "search_ends": ends, "calls": []}
    known_ways_of = {place: list(rows_at(ways, place).iter_rows(named=True)) for place in problems}
    desk: Any = None
    if (plugin := proposer.asks(search.proposer)) is not None:
        asking: Any = search
        ledger = allowance.ledger(plugin.language_model(search))
        desk = asking.desk(ledger, facts, leads(known_ways_of, problems.values()), failed)
    rows_of: dict[Place, list[tuple[str, list[Row]]]] = {place: [] for place in problems}
    for place in sorted(problems, key=lambda place: desk is not None and not desk.asks(place)):
        by = desk and desk.proposer(place)
        rows_of[place] += searched(problems[place], known_ways_of[place], search, facts, clock, progress, by)
        if desk is not None and desk.asks(place):
            _say_ended(rows_of[place], desk, progress)
            head = {"case": place[0], "direction": place[1], "search": search.name}
            rows_of[place].append(("calls", [head | row for row in call_rows(desk.take_calls())]))
    tables: dict[str, list[Row]] = {"sketches": [], "candidates": [], "search_ends": [], "calls": []}
    for name, rows in chain.from_iterable(rows_of.values()):
        tables[name] += rows
    return tables


def _say_ended(tables: list[tuple[str, list[Row]]], desk: Any, progress: Callable[[str], None]) -> None:
    """Add to a search's end why its model was asked no more, if so."""
    if not desk.ended:
        return
    said = f"asked no more: {desk.ended}"
    progress(said)
    for row in chain.from_iterable(rows for name, rows in tables if name == "search_ends"):
        row["message"] += f"; {said}"
    desk.ended = ""


def leads(known_ways_of: Mapping[Place, list[Row]], problems: Iterable[Problem]) -> frozenset[Place]:
    """Return where to ask a language model: one Case for each direction with a library of its own.

    It is the Case at which a known strategy has the most collectives, as there is the most to compose; the first of
    several.
    """
    most: dict[Direction, tuple[int, Place]] = {}
    for problem in problems:
        if problem.direction is Direction.BACKWARD and problem.linear:
            continue  # has the transposes of the forward's finds
        place = problem.place
        calls = max((r["collectives"] for r in known_ways_of[place] if rows_.begins(r)), default=0)
        if calls > most.get(problem.direction, (0, place))[0]:
            most[problem.direction] = calls, place
    return frozenset(place for _, place in most.values())


def searched(
    problem: Problem,
    ways: list[Row],
    search: Search,
    facts: DeploymentFacts,
    clock: Clock,
    progress: Callable[[str], None],
    by: Proposer | None = None,
) -> Iterator[tuple[str, list[Row]]]:
    """Yield (table, rows) of one Case and direction: the search's end and, if it began, its attempts and finds.

    It does not begin if nothing is exchanged, or without a known way to start from. by: its proposer; None: a new
    one of that which the search names.
    """
    head = {"case": problem.case.id, "direction": problem.direction.value}

    def end(ending: Ending) -> tuple[str, list[Row]]:
        progress(f"{head['case']} {head['direction']}: {ending.message}")
        return "search_ends", [head | rows_.end_row(ending, search, facts.theta)]

    if not simplify(catalog.reference_program(problem)).collectives:
        yield end(without_search(Nothing.NO_EXCHANGE))
        return
    seeker = seeker_of(problem, ways, search, facts, clock)
    if seeker is None:
        yield end(without_search(Nothing.NO_BASE))
        return
    result = seeker.result(by or proposer.plug_in(search.proposer).proposer(search))
    result = priced(result, search, partial(price, theta=facts.theta))
    named = rows_.names(result.candidates, ways)
    yield end(ending_of(result, named, search, seeker.small))
    sketches = rows_.sketch_rows(result.attempts, result.candidates)
    yield "sketches", [head | {"search": search.name} | row for row in sketches]
    candidates = rows_.candidate_rows(result, named, seeker.archive.prover.verdicts, search, facts.theta)
    yield "candidates", [head | row for row in candidates]


def seeker_of(
    problem: Problem, ways: list[Row], search: Search, facts: DeploymentFacts, clock: Clock
) -> Seeker | None:
    """Return the search from the known ways that are right, or would be where they can run; None without any."""
    started = clock()
    first = [row for row in ways if rows_.begins(row, search.begin)]
    if not first:
        return None
    bases = [rows_.base_of(row) for row in first]
    judge = Judge(
        pricing=ranking(search, partial(price, theta=facts.theta)),
        capabilities=facts.capabilities,
        memory_budget_bytes=facts.memory_budget_bytes,
    )
    archive = Archive(judge=judge, prover=_prover(bases, catalog.reference_program(problem)))
    for base, row in zip(bases, first, strict=True):
        if verdict := rows_.verdict_of(row):
            archive.prover.know(base.program, verdict)
    developer = next((b for b in bases if b.origin is Origin.DEVELOPER), bases[0])
    large = is_large(problem.case, len(developer.program.nodes), search.proxy)
    small = catalog.proxy(problem.case) if large else None
    return Seeker(
        search=search,
        archive=archive,
        bases=bases,
        proxy=None if small is None else _proxy(problem, small, bases, facts, search),
        clock=lambda: clock() - started,
    )


def _proxy(
    problem: Problem, small: Case, bases: Iterable[Base], facts: DeploymentFacts, search: Search
) -> tuple[Archive, list[Base]]:
    """Return an empty archive of the small Case, and the same strategies, without those not applicable there."""
    at_small = catalog.in_direction(small, problem.direction)
    replayed = []
    for base in bases:
        with suppress(NotApplicable, Rejected):
            replayed.append(replace(base, program=replay(base.recipe, at_small)))
    can = facts.capabilities and capabilities_as(small, problem.case, facts.capabilities)
    archive = Archive(
        judge=Judge(pricing=ranking(search, pricing_as(small, problem.case, facts.theta)), capabilities=can),
        prover=_prover(replayed, catalog.reference_program(at_small)),
        stage=Stage.PROXY,
    )
    return archive, replayed


def _prover(bases: Iterable[Base], reference: Program) -> Prover:
    developer = next((b.program for b in bases if b.origin is Origin.DEVELOPER), None)
    return Prover.beside(developer, reference)
