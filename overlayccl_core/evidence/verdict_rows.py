"""Verdicts as columns beside a Program, and as rows of the table `verdicts`."""

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.program.payload import wire_bytes
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program

Row = dict[str, Any]


def judged_columns(program: Program, legal: Verdict, proof: Verdict | None) -> Row:
    """Return a Program and its verdicts as columns of `known_ways` and `candidates`. proof: None: not asked for."""
    deciding = proof or legal
    return {
        "program": program.digest,
        "value_digest": program.value_digest,
        "collectives": len(program.calls),
        "wire_bytes": round(sum(map(wire_bytes, program.collectives))),
        "peak_bytes": dict(legal.evidence).get("peak_bytes"),
        "numerics": None if proof is None else dict(proof.evidence).get("numerics"),
        "legality": legal.outcome.value,
        "equivalence": None if proof is None else proof.outcome.value,
        "reason": deciding.reason.value,
        "message": deciding.message,
    }


def row(
    place: Place, candidate: str, verdict: Verdict, *, arm: str | None = None, model: str | None = None
) -> Row:
    """Return the row of one Verdict about one candidate."""
    head = {"case": place[0], "direction": place[1], "candidate": candidate, "arm": arm, "model": model}
    return {**head, "gate": verdict.gate.value, **said_columns(verdict)}


def said_columns(verdict: Verdict) -> Row:
    """Return what a Verdict says as columns of `verdicts` and `curves`."""
    return {
        "outcome": verdict.outcome.value,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "evidence": json.dumps(dict(verdict.evidence), sort_keys=True),
    }


def verdicts_of(deployed: Row, verdicts: pl.DataFrame) -> Iterator[Row]:
    """Yield the verdicts about a deployed Program: as a candidate, and as its chosen arm."""
    key = ("case", "direction", "candidate")
    for verdict in verdicts.iter_rows(named=True):
        if all(verdict[k] == deployed[k] for k in key) and verdict["arm"] in (None, deployed["arm"]):
            yield {k: verdict[k] for k in ("gate", "model", "outcome", "reason", "message", "evidence")}


def before_choice(ways: pl.DataFrame, candidates: pl.DataFrame, shortlist: pl.DataFrame) -> list[Row]:
    """Return legality and equivalence verdicts of known ways and finds: all those rejected, and the shortlist."""
    listed = set(shortlist.select("case", "direction", "program").iter_rows())
    rows: dict[tuple[str, str, str], Row] = {}
    for frame, name in ((ways, "strategy"), (candidates, "candidate")):
        for one in frame.iter_rows(named=True):
            place, stopped = place_of(one), _stopped(one)
            if (stopped or (*place, one["program"]) in listed) and (*place, one[name]) not in rows:
                rows[*place, one[name]] = one
    return [verdict for key, one in rows.items() for verdict in _both(key, one)]


def _stopped(one: Row) -> bool:
    return one["legality"] != Outcome.PASS or one["equivalence"] in (Outcome.FAIL, Outcome.UNPROVEN)


def _both(key: tuple[str, str, str], one: Row) -> list[Row]:
    """Return the rows of both gates; only candidates that pass the first have a second."""
    case, direction, candidate = key
    head = {"case": case, "direction": direction, "candidate": candidate, "arm": None, "model": None}
    rows = [head | _verdict(Gate.LEGALITY, one["legality"], one, {"peak_bytes": one["peak_bytes"]})]
    if one["equivalence"] is not None:
        rows.append(head | _verdict(Gate.EQUIVALENCE, one["equivalence"], one, {"numerics": one["numerics"]}))
    return rows


def _verdict(gate: Gate, outcome: str, one: Row, evidence: dict[str, Any]) -> Row:
    passed = outcome == Outcome.PASS
    return {
        "gate": gate.value,
        "outcome": outcome,
        "reason": Reason.OK.value if passed else one["reason"],
        "message": "" if passed else one["message"],
        "evidence": json.dumps({k: v for k, v in evidence.items() if v is not None}),
    }
