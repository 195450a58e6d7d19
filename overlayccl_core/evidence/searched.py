"""The start of a search, from rows of `known_ways`, and its results, as rows of its tables."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from overlayccl_core.configuration.searches import Begin, Search
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.prices import price_columns
from overlayccl_core.evidence.verdict_rows import judged_columns
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.json_form import dumps, loads
from overlayccl_core.program.library import Role
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search.archive import Base
from overlayccl_core.search.candidate import Candidate, Origin
from overlayccl_core.search.ending import Ending
from overlayccl_core.search.judge import INFEASIBLE
from overlayccl_core.search.loop import SearchResult
from overlayccl_core.search.proposal import Attempt
from overlayccl_core.tables.candidate_columns import FOUND
from overlayccl_core.tables.known_ways import WayStatus

Row = dict[str, Any]
SHORTEST = 8  # digits of a value_digest in a name


def begins(way: Row, begin: Begin = Begin.LIBRARY) -> bool:
    """Return whether a search begins with a known way: requested, and proven, or unproven only as infeasible here.

    Derived ways never count: there are many, and a search has few rounds.
    """
    if way["role"] == Role.DERIVED or (begin is Begin.DEVELOPER and way["role"] != Role.DEVELOPER):
        return False
    if way["equivalence"] is not None:
        return bool(way["equivalence"] == Outcome.PASS)
    return way["status"] == WayStatus.PROGRAM and way["reason"] in INFEASIBLE


def base_of(way: Row) -> Base:
    """Return the Program of a known way."""
    return Base(
        program=loads(way["program_json"]),
        recipe=Recipe.from_json(json.loads(way["recipe"])),
        origin=Origin.DEVELOPER if way["role"] == Role.DEVELOPER else Origin.KNOWN,
    )


def verdict_of(way: Row) -> Verdict | None:
    """Return the verdict of a known way's proof; None if no proof was asked for."""
    if way["equivalence"] is None:
        return None
    outcome, reason = Outcome(way["equivalence"]), Reason(way["reason"])
    return Verdict.of(Gate.EQUIVALENCE, outcome, reason, way["message"], numerics=way["numerics"])


def names(candidates: Iterable[Candidate], ways: Iterable[Row]) -> dict[str, str]:
    """Return program -> candidate name: the name of an equal or equivalent known way, else a new one."""
    by_program: dict[str, str] = {}
    by_value: dict[str, str] = {}
    for row in ways:
        if row["status"] == WayStatus.PROGRAM:
            by_program.setdefault(row["program"], row["strategy"])
            by_value.setdefault(row["value_digest"], row["strategy"])
    named: dict[str, str] = {}
    for candidate in candidates:
        program = candidate.program
        known = by_program.get(program.digest) or by_value.get(program.value_digest)
        named[program.digest] = known or _new_name(program.value_digest, named)
    return named


def _new_name(value_digest: str, taken: Mapping[str, str]) -> str:
    used = set(taken.values())
    names = (FOUND + value_digest[:digits] for digits in range(SHORTEST, len(value_digest) + 1))
    return next(name for name in names if name not in used)


def sketch_rows(attempts: Iterable[Attempt], candidates: Iterable[Candidate] = ()) -> Iterator[Row]:
    """Yield a row of `sketches` for every proposal, without Case and direction; candidates: their Programs."""
    terms = {c.program.value_digest: {t.value: us for t, us in c.price.terms.items()} for c in candidates}
    for number, attempt in enumerate(attempts):
        sketch = attempt.sketch
        written = None if sketch is None else sketch.written
        aim = None if written is None else written.aim
        yield {
            "number": number,
            "parent": attempt.parent,
            "origin": attempt.origin.value,
            "step": json.dumps(attempt.steps[-1]) if attempt.steps else None,
            "function": None if sketch is None else sketch.function,
            "source": None if sketch is None else sketch.source,
            "purpose": None if written is None else written.purpose,
            "call": None if written is None else written.call,
            "aim": None if aim is None else aim.term,
            "aim_us": None if aim is None else aim.us,
            "aimed_us": None if aim is None else terms.get(attempt.value_digest or "", {}).get(aim.term),
            "rationale": attempt.rationale,
            "outcome": attempt.outcome.value,
            "value_digest": attempt.value_digest,
            "message": attempt.message,
            "stage": attempt.stage.value,
        }


def candidate_rows(
    result: SearchResult,
    named: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
    search: Search,
    theta: Theta,
) -> Iterator[Row]:
    """Yield a row of `candidates` for every Program, without Case and direction. verdicts: by program."""
    elites = {c.program.digest for c in result.elites}
    for candidate in result.candidates:
        digest = candidate.program.digest
        row = candidate_row(candidate, named[digest], verdicts.get(digest), search.name, theta)
        yield row | {"elite": digest in elites}


def candidate_row(candidate: Candidate, name: str, proof: Verdict | None, search: str, theta: Theta) -> Row:
    """Return a row of `candidates`, no elite, without Case and direction. proof: None: not asked for."""
    return {
        "candidate": name,
        "search": search,
        "origin": candidate.origin.value,
        "parent": candidate.parent,
        "recipe": candidate.recipe.dumps(),
        "family": candidate.family,
        "program_json": dumps(candidate.program) if proof is not None else None,
        **judged_columns(candidate.program, candidate.legal, proof),
        "elite": False,
        **price_columns(candidate.price if candidate.feasible else None),
        "fingerprint": theta.fingerprint,
    }


def end_row(ending: Ending, search: Search, theta: Theta) -> Row:
    """Return a row of `search_ends`, without Case and direction."""
    of = {"search": search.name, "why": ending.why.value, "fingerprint": theta.fingerprint}
    return asdict(ending) | of
