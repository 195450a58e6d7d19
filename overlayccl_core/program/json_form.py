"""A Program as portable JSON. Reading rebuilds it with the constructors and compares the digests."""

import json
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.program import nodes
from overlayccl_core.program.groups import Groups, groups_of
from overlayccl_core.program.kinds import DType, IssueOrder, Kind, Label, Reduction
from overlayccl_core.program.maps import Ints, Map, check_runs
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.problem_json import problem_from_json, problem_to_json
from overlayccl_core.program.program import BOUNDARY, Boundary, Event, Issue, Program, Read, Write
from overlayccl_core.program.rowwise import Form, RowAttr

VERSION = 4
SCHEMA_PATH = Path(__file__).with_name("program.schema.json")
_MEND = "another release wrote it, so write it again with this one"


class InvalidProgram(ValueError):
    """JSON is no Program, or not the one named by its digests."""


def dumps(program: Program) -> str:
    """The Program as one line of JSON; equal Programs give equal text."""
    return json.dumps(to_json(program), separators=(",", ":"), sort_keys=True)


def loads(text: str) -> Program:
    """The Program of `dumps`; InvalidProgram for any other text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidProgram(f"Program JSON does not parse: {error}: {_MEND}") from None
    return from_json(data)


def to_json(program: Program) -> dict[str, Any]:
    """Plain data with the fields of program.schema.json."""
    writer = _Writer()
    index = {x: i for i, x in enumerate(program.nodes)}
    return {
        "version": VERSION,
        "problem": problem_to_json(program.problem),
        "nodes": [writer.node(x, index) for x in program.nodes],
        "maps": writer.maps,
        "groups": writer.groups,
        "events": [_event_to_json(e, index) for e in program.events],
        "digest": program.digest,
        "value_digest": program.value_digest,
    }


def from_json(data: Any) -> Program:
    """Return the Program written by `to_json`.

    Raises:
        InvalidProgram: The data do not fit the schema, do not make a Program, or make one with other digests. The
            message names the place.
    """
    if (written := _as_written(data)) is not None:
        return written
    version = data.get("version") if isinstance(data, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise InvalidProgram(f"Program JSON of version {version}, {VERSION} is read here: {_MEND}")
    problem = next(_validator().iter_errors(data), None)
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "top level"
        raise InvalidProgram(f"Program JSON, {where}: {problem.message}: {_MEND}")
    try:
        program = _rebuild(data)
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        raise InvalidProgram(f"Program JSON does not make a Program: {error}: {_MEND}") from error
    for name, digest in (("digest", program.digest), ("value_digest", program.value_digest)):
        if digest != data[name]:
            raise InvalidProgram(f"Program JSON: {name} is {data[name]}, its content gives {digest}: {_MEND}")
    return program


def _as_written(data: Any) -> Program | None:
    """The Program, if `to_json` gives exactly these data: then the schema, ten times as slow, adds nothing."""
    try:
        program = _rebuild(data)
        same = json.dumps(to_json(program), sort_keys=True) == json.dumps(data, sort_keys=True)
    except Exception:  # the checks of `from_json` name the error
        return None
    return program if same else None


@lru_cache(maxsize=1)
def _validator() -> Any:
    import jsonschema  # for reading only: it takes a third of the time of all imports

    return jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text()))


# ------------------------------------------------------------------------------------------------- writing
class _Writer:
    """Collects maps and groups, each once."""

    def __init__(self) -> None:
        self.maps: list[dict[str, Any]] = []
        self.groups: list[list[list[int]]] = []
        self._map_index: dict[bytes, int] = {}
        self._group_index: dict[bytes, int] = {}

    def node(self, x: Node, index: dict[Node, int]) -> dict[str, Any]:
        head = {
            "kind": x.kind.value,
            "operands": [index[y] for y in x.operands],
            "size": x.size,
            "dtype": x.dtype.value,
        }
        return head | self._attributes(x)

    def _attributes(self, x: Node) -> dict[str, Any]:
        match x.kind:
            case Kind.INPUT:
                return {"port": list(x.port), "equal": x.attr.equal}
            case Kind.VIEW:
                return {"map": self._map(x.map)}
            case Kind.SUM:
                return {"count": x.count}
            case Kind.SCALE:
                return {"ratio": [x.ratio.numerator, x.ratio.denominator]}
            case Kind.CAST:
                return {}
            case Kind.ROWWISE:
                heads = {"heads": x.row.heads} if x.row.operation.form is Form.HEADS else {}
                return {"operation": x.row.name, "width": x.row.width, "first": list(x.row.first), **heads}
            case Kind.COLLECTIVE_PERMUTE:
                return {"sources": list(x.sources), "label": _label_to_json(x.label)}
            case _:
                label, reduction = _label_to_json(x.label), x.attr.reduction.value
                return {"groups": self._group(x.groups), "label": label, "reduction": reduction}

    def _map(self, m: Map) -> int:
        if m.digest not in self._map_index:
            self._map_index[m.digest] = len(self.maps)
            fields = {"rows": m.rows, "size": m.size, "keys": m.keys.tolist(), "sources": m.sources.tolist()}
            self.maps.append(fields)
        return self._map_index[m.digest]

    def _group(self, groups: Groups) -> int:
        if groups.digest not in self._group_index:
            self._group_index[groups.digest] = len(self.groups)
            self.groups.append([list(g) for g in groups.members])
        return self._group_index[groups.digest]


def _label_to_json(label: Label) -> dict[str, str]:
    return {"graph": label.graph, "issue": label.issue.value, "call": label.call}


def _event_to_json(event: Event, index: dict[Node, int]) -> list[Any]:
    match event:
        case Read(port):
            return ["read", list(port)]
        case Issue(call):
            return ["issue", *(index[node] for node in call)]
        case Write(port, node):
            return ["write", list(port), index[node]]
        case Boundary():
            return ["boundary"]


# ------------------------------------------------------------------------------------------------- reading
def _rebuild(data: dict[str, Any]) -> Program:
    problem = problem_from_json(data["problem"])
    maps = [_map_from_json(d) for d in data["maps"]]
    groups = [groups_of(members, problem.ranks) for members in data["groups"]]
    made: list[Node] = []
    for i, fields in enumerate(data["nodes"]):
        if any(k >= i for k in fields["operands"]):
            raise ValueError(f"node {i} has an operand that comes after it")
        x = _node_from_json(fields, [made[k] for k in fields["operands"]], problem, maps, groups)
        if x.size != fields["size"] or x.dtype.value != fields["dtype"]:
            raise ValueError(f"node {i} gives {x.size} elements of {x.dtype.value}")
        made.append(x)
    return Program(problem, [_event_from_json(e, made) for e in data["events"]])


def _node_from_json(
    fields: dict[str, Any], operands: list[Node], problem: Problem, maps: list[Map], groups: list[Groups]
) -> Node:
    kind = Kind(fields["kind"])
    wanted = 0 if kind is Kind.INPUT else None if kind in (Kind.VIEW, Kind.ROWWISE) else 1
    if wanted is not None and len(operands) != wanted:
        raise ValueError(f"{kind.value} takes {wanted} operands (got {len(operands)})")
    match kind:
        case Kind.INPUT:
            return problem.input_node(tuple(fields["port"]))
        case Kind.VIEW:
            return nodes.make_view(
                operands, _fitting(maps[fields["map"]], operands, problem), DType(fields["dtype"])
            )
        case Kind.SUM:
            return nodes.make_sum(operands[0], fields["count"])
        case Kind.SCALE:
            return nodes.make_scale(operands[0], Fraction(*fields["ratio"]))
        case Kind.CAST:
            return nodes.make_cast(operands[0], DType(fields["dtype"]))
        case Kind.ROWWISE:
            first, heads = _first(fields, problem), fields.get("heads", 1)
            attr = RowAttr(name=fields["operation"], width=fields["width"], first=first, heads=heads)
            return nodes.make_rowwise(attr, operands, DType(fields["dtype"]))
        case Kind.COLLECTIVE_PERMUTE:
            return nodes.make_permute(
                operands[0], _sources(fields, problem), _label_from_json(fields["label"])
            )
        case _:
            label, reduction = _label_from_json(fields["label"]), Reduction(fields["reduction"])
            return nodes.make_collective(kind, operands[0], groups[fields["groups"]], label, reduction)


def _map_from_json(fields: dict[str, Any]) -> Map:
    """A checked Map: its runs are sorted, lie inside its rows and start every row."""
    rows, size = fields["rows"], fields["size"]
    check_runs(len(fields["keys"]))
    keys, sources = _integers(fields["keys"]), _integers(fields["sources"])
    if len(keys) != len(sources) or not len(keys) or keys[0] != 0 or (np.diff(keys) <= 0).any():
        raise ValueError("a map needs as many sorted keys as sources, from 0 on")
    if not 1 <= rows <= len(keys) or not 1 <= size <= nodes.MAX_ELEMENTS:
        raise ValueError("a map has as many rows as runs at the most, and a size that a value may have")
    if keys[-1] >= rows * size or not np.isin(np.arange(rows) * size, keys).all() or sources.min() < -1:
        raise ValueError("a map's runs must lie inside its rows, and every row must start one")
    return Map(rows, size, keys, sources)


def _integers(values: list[Any]) -> Ints:
    integers = np.asarray(values)
    if integers.ndim != 1 or integers.dtype.kind != "i":
        raise ValueError("keys and sources must be integers")
    return integers.astype(np.int64)


def _fitting(m: Map, operands: list[Node], problem: Problem) -> Map:
    live = m.sources >= 0
    elements = sum(x.size for x in operands)
    if m.rows not in (1, problem.ranks) or (m.sources > elements - m.lengths)[live].any():
        raise ValueError("a map reads past its operands, or has a row count that is neither 1 nor the ranks")
    return m


def _first(fields: dict[str, Any], problem: Problem) -> tuple[int, ...]:
    first = tuple(fields["first"])
    if len(first) not in (0, 1, problem.ranks):
        raise ValueError(f"{fields['operation']}: first is of all ranks, or one for each (got {len(first)})")
    return first


def _sources(fields: dict[str, Any], problem: Problem) -> list[int]:
    sources: list[int] = fields["sources"]
    sent = [s for s in sources if s >= 0]
    if len(sources) != problem.ranks or len(set(sent)) != len(sent) or max(sent, default=0) >= problem.ranks:
        raise ValueError("collective_permute needs one source for each rank, each rank at most once")
    return sources


def _label_from_json(fields: dict[str, str]) -> Label:
    return Label(graph=fields["graph"], issue=IssueOrder(fields["issue"]), call=fields["call"])


def _event_from_json(fields: list[Any], made: list[Node]) -> Event:
    match fields:
        case ["read", list(port)]:
            return Read(tuple(port))
        case ["issue", *numbers] if numbers and all(
            type(i) is int and 0 <= i < len(made) and made[i].is_collective for i in numbers
        ):
            return Issue(tuple(made[i] for i in numbers))
        case ["write", list(port), int(i)] if 0 <= i < len(made):
            return Write(tuple(port), made[i])
        case ["boundary"]:
            return BOUNDARY
        case _:
            raise ValueError(f"{fields!r} is no event")
