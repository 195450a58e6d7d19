"""A Case in the table of a deployed module, as text: an Entry of runtime/entry.py."""

import pprint
import textwrap
from collections.abc import Mapping, Sequence

from overlayccl_core.emit.deployed_case import DeployedCase, Way
from overlayccl_core.emit.port_groups import PortGroup
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, PortSpec

WIDTH = 100


def entry_text(
    case: DeployedCase, groups: Sequence[PortGroup], functions: Mapping[str, tuple[str, str]]
) -> str:
    """Return an item of the table.

    Args:
        functions: Name of each way's function, and why the way does not fall into groups.
    """
    problems = case.problems
    of = problems[Direction.FORWARD].case
    fields = {
        "ranks": repr(of.ranks),
        "members": literal(of.members()),
        "gradient": repr(case.gradient.value),
        "inputs": _port_tables({d: p.inputs for d, p in problems.items()}),
        "outputs": _port_tables({d: p.outputs for d, p in problems.items()}),
        "groups": literal(tuple((g.inputs, g.outputs) for g in groups)),
        "permutes": repr(case.has_permutes()),
        "arguments": literal(dict(problems[Direction.FORWARD].arguments)),
        "ways": _braced([f'"{way}": {_way(way, case, *made)},' for way, made in functions.items()]),
    }
    return f'"{case.case_id}": {_call("Entry", fields)},'


def _way(name: str, case: DeployedCase, function: str, ungrouped: str) -> str:
    """Return the text of a Way of runtime/entry.py."""
    way = case.ways[name]
    fields = {
        "sections": function,
        "ungrouped": literal(ungrouped),
        "tolerance": literal({d.value: case.tolerance(name, d) for d in way}),
        "said": literal(_said(way)),
    }
    return _call("Way", fields)


def _said(way: Way) -> dict[str, dict[str, str]]:
    """Return a stamp's facts about a way, by direction."""
    return {
        "strategy": {d.value: proven.candidate for d, proven in way.items()},
        "recipe": {d.value: proven.recipe for d, proven in way.items()},
        "numerics": {d.value: proven.numerics for d, proven in way.items()},
        "program": {d.value: proven.program.digest for d, proven in way.items()},
    }


def _port_tables(ports: Mapping[Direction, Mapping[Port, PortSpec]]) -> str:
    """Print direction -> ports by Spec, those of one Spec on one line."""
    lines: list[str] = []
    for direction, specs in ports.items():
        lines.append(f'"{direction.value}": ports(')
        alike: dict[str, list[Port]] = {}
        for port, spec in specs.items():
            alike.setdefault(_spec(spec), []).append(port)
        for text, of in alike.items():
            lines += [f"    ({text},", textwrap.indent(f"{literal(tuple(of))}),", " " * 5)]
        lines.append("),")
    return _braced(lines)


def _spec(spec: PortSpec) -> str:
    more = ", equal=True" if spec.placement is Placement.REPLICATE else ""
    more += f", valid={spec.valid}" if spec.valid is not None else ""
    more += f", within={spec.within}" if spec.within is not None else ""
    more += ", saved=True" if spec.saved else ""
    return f"Spec({spec.shape}, torch.{spec.dtype.value}{more})"


def _braced(items: Sequence[str]) -> str:
    """Return the text of a dict of printed items, its lines indented as in a call."""
    return "\n".join(["{", textwrap.indent("\n".join(items), " " * 8), "    }"])


def _call(name: str, fields: Mapping[str, str]) -> str:
    """Return the text of a call with printed arguments."""
    return "\n".join([f"{name}(", *(f"    {field}={text}," for field, text in fields.items()), ")"])


def literal(value: object) -> str:
    """Return Python text of plain data, its lines indented as in a call."""
    return "\n    ".join(pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False).splitlines())
