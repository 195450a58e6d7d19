"""Classes of fields: what is read, what is refused, and what is said of it in one line."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from overlayccl_core.cli import main
from overlayccl_core.configuration.fields import Count, Fields, described, parsed, partial, read, schema
from overlayccl_core.configuration.sizes import Bytes


class Way(StrEnum):
    NEAR = "near"
    FAR = "far"


class Inner(Fields):
    """Some of it."""

    nodes: Count = Field(description="nodes of it")
    ranks: Count = Field(description="ranks of it")


class Outer(Fields):
    """All of it."""

    name: str
    way: Way = Field(default=Way.NEAR, description="where to")
    seconds: float = Field(gt=0, description="how long")
    counts: tuple[Count, ...] = Field(min_length=1, description="how many")
    on: bool = Field(default=False, description="whether")
    held_bytes: Bytes = Field(default=1, validation_alias="held", description="what it holds")
    inner: Inner | None = Field(default=None, description="both of it")
    others: dict[str, Inner] = Field(default={}, description="more of it")


GOOD: dict[str, Any] = {"seconds": 3, "counts": [1, 2]}


def outer(**changes: Any) -> Outer:
    return Outer.from_data({**GOOD, **changes}, name="some")


def test_what_is_read_has_its_types_and_survives_its_own_text() -> None:
    made = outer(way="far", held="2KiB", inner={"nodes": 1, "ranks": 2})
    assert (made.name, made.way, made.seconds, made.counts) == ("some", Way.FAR, 3.0, (1, 2))
    assert (made.held_bytes, made.inner) == (2048, Inner(nodes=1, ranks=2))
    assert Outer.from_json(made.to_json()) == made
    assert made.changed(seconds=1.5).seconds == 1.5
    with pytest.raises(ValueError, match="greater than 0"):
        made.changed(seconds=0.0)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"second": 3}, ("second: ", "no such field", "'seconds'")),
        ({"name": "other"}, ("name: ", "no such field", "among way, seconds")),
        ({"held_bytes": 3}, ("held_bytes: ", "no such field")),
        ({"way": "nowhere"}, ("way: ", "'near' or 'far'", "got 'nowhere'", "where to")),
        ({"seconds": "3"}, ("seconds: ", "number", "got '3'", "how long")),
        ({"seconds": True}, ("seconds: ", "number", "got True", "how long")),
        ({"seconds": 0}, ("seconds: ", "greater than 0", "got 0", "how long")),
        ({"seconds": float("inf")}, ("seconds: ", "finite")),
        ({"counts": []}, ("counts: ", "at least 1 item", "got []", "how many")),
        ({"counts": [2, "4"]}, ("counts.1: ", "integer", "got '4'", "how many")),
        ({"counts": [True]}, ("counts.0: ", "integer", "got True", "how many")),
        ({"on": 1}, ("on: ", "boolean", "got 1", "whether")),
        ({"held": "2 kilobytes"}, ("held: ", "a size such as 64KiB", "got '2 kilobytes'")),
        ({"inner": {"nodes": 1}}, ("inner.ranks: ", "must be there", "ranks of it")),
        ({"inner": {"nodes": 1, "rank": 2}}, ("inner.rank: ", "no such field", "'ranks'")),
        ({"inner": 3}, ("inner: ", "object", "got 3", "both of it")),
        ({"others": {"x": {"nodes": 0, "ranks": 1}}}, ("others.x.nodes: ", "to 1 (got 0)", "nodes of it")),
    ],
)
def test_a_mistake_is_one_line_with_field_rule_value_and_mend(
    changes: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as error:
        outer(**changes)
    said = str(error.value)
    assert said.startswith(parts[0]) and all(part in said for part in parts) and "\n" not in said


def test_a_file_that_holds_no_fields_is_named(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text("just words")
    with pytest.raises(ValueError, match=r"some\.yaml: .*'just words'"):
        read("thing", path, Outer, name="some")
    path.write_text("counts: [")
    with pytest.raises(ValueError, match=r"some\.yaml: not readable as YAML"):
        read("thing", path, Outer, name="some")
    with pytest.raises(ValueError, match=r"no thing 'other': .*there are: some"):
        read("thing", tmp_path / "other.yaml", Outer, name="other")


def test_of_a_part_any_field_may_be_left_out_and_none_may_be_wrong() -> None:
    part = partial("Part", Outer, only=("inner", "others", "seconds"))
    assert part.from_data({}).model_fields_set == set()
    with pytest.raises(ValueError, match=r"seconds: .*greater than 0"):
        part.from_data({"seconds": 0})
    with pytest.raises(ValueError, match=r"counts: .*no such field"):
        part.from_data({"counts": [1]})


def test_a_schema_is_of_the_file_and_a_description_of_all_fields() -> None:
    of_outer = schema(Outer)
    assert "name" not in of_outer["properties"]
    assert of_outer["required"] == ["seconds", "counts"]
    assert of_outer["properties"]["held"]["description"] == "what it holds"
    assert described(Inner) == "nodes: nodes of it; ranks: ranks of it"


@pytest.mark.parametrize(
    ("file", "field"), [("config", "presets"), ("deployment", "memory_budget"), ("search", "proxy")]
)
def test_the_command_prints_the_schema_of_a_file(
    file: str, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["schema", file]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert any(field in one.get("properties", ()) for one in (printed, *printed.get("$defs", {}).values()))


def test_who_changes_what_a_file_holds_changes_it_for_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text("counts: [1, 2]")
    parsed(tmp_path / "some.yaml")["counts"].append(3)
    assert parsed(tmp_path / "some.yaml") == {"counts": [1, 2]}
