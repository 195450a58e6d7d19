"""Forged answers, a row each: what a process that was taken over may send in a Program's place.

`set`: parts of an honest answer that are written otherwise; `raw`: a text, so many times; `nodes`: so many empty
ones. `says`: what refuses it. `without`: what becomes of it when it is rebuilt, and neither the schema nor the
Problem nor the digests are looked at: it goes through, or the constructors stop it.
"""

import json
from typing import Any

import pytest
import yaml

from overlayccl_core.program import json_form
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox.tracing import program_of
from tests.hostile.test_sources import BUSY, GOES_THROUGH, HERE, PROBLEM, QUICK_S
from tests.sandbox.forked import cpu_s

SOURCE = """
from overlayccl_core.program.language import all_reduce, collective_permute, index_select, scale


def honest(io, p):
    moved = collective_permute(io.read("x"), [(r, (r + 1) % p.ranks) for r in range(p.ranks)])
    turned = index_select(moved, [[(i + r) % 8 for i in range(8)] for r in range(p.ranks)])
    io.write("y", scale(all_reduce(turned, "sum", [[0, 1], [2, 3]]), 1, 2))
"""
HONEST = trace_source(SOURCE, "honest", PROBLEM)
ROWS = yaml.safe_load((HERE / "schema.yaml").read_text())
forged = pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])


def answer_of(row: dict[str, Any]) -> bytes:
    if "raw" in row:
        text, times = row["raw"]
        return (text * times).encode()
    answer: dict[str, Any] = {"program": json_form.to_json(HONEST)}
    if "nodes" in row:
        answer["program"]["nodes"] = [{}] * row["nodes"]
    for path, value in row.get("set", {}).items():
        *way, last = (int(part) if part.isdigit() else part for part in path.split("/"))
        at: Any = answer
        for part in way:
            at = at[part]
        at[last] = value
    return json.dumps({name: value for name, value in answer.items() if value is not None}).encode()


def rebuilt(answer: bytes) -> str:
    """What becomes of an answer that nobody checks."""
    try:
        data = json.loads(answer)
        if not isinstance(data, dict) or "program" in data:
            json_form._rebuild(data["program"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return GOES_THROUGH


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) == 53


def test_an_honest_answer_is_the_very_program() -> None:
    program = program_of(answer_of({}), PROBLEM)
    assert program.digest == HONEST.digest and program.problem is PROBLEM
    assert rebuilt(answer_of({})) == GOES_THROUGH


def test_what_can_be_forged_is_another_legal_program() -> None:
    """With digests that fit it is a Program as any; whether it is right is for the proof to say."""
    data = json_form.to_json(HONEST)
    data["groups"] = [[[0, 2], [1, 3]]]
    other = json_form._rebuild(data)
    data |= {"digest": other.digest, "value_digest": other.value_digest}
    assert program_of(json.dumps({"program": data}).encode(), PROBLEM).digest == other.digest


@forged
def test_a_forged_answer_is_refused_soon(row: dict[str, Any]) -> None:
    answer = answer_of(row)
    began = cpu_s()
    with pytest.raises(Rejected) as refused:
        program_of(answer, PROBLEM)
    assert row["says"] in str(refused.value)
    assert cpu_s() - began < QUICK_S * BUSY


@forged
def test_without_the_schema_and_the_digests_a_forged_answer_gets_further(row: dict[str, Any]) -> None:
    became = rebuilt(answer_of(row))
    assert any(words in became for words in row["without"].split(" or ")), became
