"""Programs as JSON: what is written is read back, and nothing else is."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlayccl_core import catalog
from overlayccl_core.program import json_form
from overlayccl_core.program.json_form import InvalidProgram
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.known_ways import known_ways_of
from tests.known_cases import SMALL, case, programs
from tests.random_programs import random_program

SCHEMA = jsonschema.Draft202012Validator(json.loads(json_form.SCHEMA_PATH.read_text()))


def _is_the_same(program: Program) -> None:
    text = json_form.dumps(program)
    assert SCHEMA.is_valid(json.loads(text))  # so what is read as it was written need not be checked again
    again = json_form.loads(text)
    assert again.problem == program.problem
    assert again.events == program.events  # nodes are interned: equal events hold the same nodes
    assert (again.digest, again.value_digest) == (program.digest, program.value_digest)
    assert json_form.dumps(again) == text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_random_programs_round_trip(seed: int) -> None:
    _is_the_same(random_program(seed))


@pytest.mark.parametrize("name", list(SMALL))
def test_every_known_way_round_trips(name: str) -> None:
    for problem in catalog.directions(case(name, ranks=8, ranks_per_node=4)):
        for program in programs(problem, derived=False).values():
            _is_the_same(program)


def test_known_ways_that_are_not_applicable_have_no_program() -> None:
    problem = catalog.build(case("grad_ar"))
    with pytest.raises(NotApplicable):
        replay(next(s for s in known_ways_of(problem) if s.name == "hierarchical").recipe, problem)


def _data(strategy: str = "two_step_hierarchical") -> dict[str, Any]:
    problem = catalog.build(case("uniform_a2a", ranks=4, ranks_per_node=2))
    way = next(s for s in known_ways_of(problem) if s.name == strategy)
    data: dict[str, Any] = json.loads(json_form.dumps(replay(way.recipe, problem)))
    return data


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def _drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(name)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another version": (
        _set("version", to=1),
        "of version 1, 4 is read here: another release wrote it, so write it again",
    ),
    "a field missing": (_drop("maps"), "'maps' is a required property"),
    "an unknown field": (_set("comment", to="x"), "comment"),
    "an unknown kind": (_set("nodes", 0, "kind", to="alltoall"), "nodes/0/kind"),
    "an attribute of a kind missing": (lambda d: d["nodes"][0].pop("equal"), "nodes/0"),
    "a port that is no input": (_set("nodes", 0, "port", to=["sent"]), "no input sent"),
    "another size": (_set("nodes", 0, "size", to=7), "node 0 gives"),
    "an operand that comes later": (_set("nodes", 1, "operands", to=[3]), "comes after it"),
    "too many operands": (_set("nodes", 2, "operands", to=[0, 1]), "takes 1 operands"),
    "a map that reads past its operand": (_set("maps", 0, "sources", 0, to=10**6), "reads past"),
    "a map with unsorted keys": (lambda d: d["maps"][0]["keys"].reverse(), "sorted keys"),
    "a map of texts": (_set("maps", 0, "keys", 0, to="0"), "must be integers"),
    "a map of another row count": (_set("maps", 0, "rows", to=3), "every row must start one"),
    "groups that overlap": (_set("groups", 0, to=[[0, 1], [1, 2]]), "partition ranks"),
    "an event of another kind": (_set("events", 0, to=["send", ["send"]]), "events/0"),
    "an issue of what is no collective": (_set("events", 1, to=["issue", 0]), "is no event"),
    "an issue of a node that is not there": (_set("events", 1, to=["issue", 99]), "is no event"),
    "a write missing": (lambda d: d["events"].pop(), "never written"),
    "another digest": (_set("digest", to="0" * 24), "its content gives"),
    "another value digest": (_set("value_digest", to="0" * 24), "its content gives"),
    "another Case": (_set("problem", "case", "name", to="61B"), "its content gives"),
    "ranks that do not fit": (_set("problem", "case", "ranks_per_node", to=3), "ranks_per_node must divide"),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_a_changed_file_is_refused_with_the_place(what: str) -> None:
    change, message = CHANGES[what]
    data = _data()
    change(data)
    with pytest.raises(InvalidProgram, match=message):
        json_form.from_json(data)


def test_an_order_that_was_changed_is_refused() -> None:
    data = _data("permute_ring")
    issued = [i for i, e in enumerate(data["events"]) if e[0] == "issue"]
    a, b = issued[:2]
    data["events"][a], data["events"][b] = data["events"][b], data["events"][a]
    with pytest.raises(InvalidProgram, match="digest is"):
        json_form.from_json(data)


def test_a_permute_to_one_rank_twice_is_refused() -> None:
    data = _data("permute_ring")
    node = next(n for n in data["nodes"] if n["kind"] == "collective_permute")
    node["sources"][0] = node["sources"][1]
    with pytest.raises(InvalidProgram, match="each rank at most once"):
        json_form.from_json(data)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_what_is_no_program_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidProgram, match="write it again"):
        json_form.loads(text)
