"""A Case in the table of a deployed module, as text: an Entry of runtime/entry.py."""

import pprint
import textwrap
from collections.abc import Mapping, Sequence

from overlayccl_core.emit.deployed_case import DeployedCase, Side
from overlayccl_core.emit.port_groups import PortGroup
from overlayccl_core.program.kinds import Placement
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, PortSpec

WIDTH = 100


def entry_text(
    case: DeployedCase,
    groups: Sequence[PortGroup],
    ungrouped: Mapping[Side, str],
    builders: Mapping[Side, str],
) -> str:
    """Return an item of the table.

    Args:
        builders: Name of each side's function.
        ungrouped: Why a side does not fall into groups.
    """
    of = case.forward.problem.case
    problems = {direction: program.problem for direction, program in case.programs(Side.CHOSEN).items()}
    fields = {
        "ranks": repr(of.ranks),
        "members": literal(of.members()),
        "gradient": repr(case.gradient.value),
        "inputs": _port_tables({d: p.inputs for d, p in problems.items()}),
        "outputs": _port_tables({d: p.outputs for d, p in problems.items()}),
        "groups": literal(tuple((g.inputs, g.outputs) for g in groups)),
        "tolerance": literal({d.value: case.tolerance(d) for d in problems}),
        "permutes": repr(case.has_permutes()),
        "said": literal(_said(case)),
        "ungrouped": literal({side.value: why for side, why in ungrouped.items()}),
        **{side.value: name for side, name in builders.items()},
        "arguments": literal(dict(case.forward.problem.arguments)),
    }
    lines = "\n".join(f"    {name}={text}," for name, text in fields.items())
    return f'"{case.case_id}": Entry(\n{lines}\n),'


def _said(case: DeployedCase) -> dict[str, dict[str, str]]:
    """Return a stamp's facts about a Case, by direction."""
    said = {
        "strategy": (case.candidate, case.backward_candidate),
        "recipe": (case.recipe, case.backward_recipe),
        "numerics": (case.numerics, case.backward_numerics),
    }
    there = case.programs(Side.CHOSEN)
    by_direction = {
        name: {d.value: text for d, text in zip(Direction, pair, strict=True) if d in there}
        for name, pair in said.items()
    }
    for side, name in ((Side.CHOSEN, "program"), (Side.PLAIN, "plain_program")):
        by_direction[name] = {d.value: program.digest for d, program in case.programs(side).items()}
    return by_direction


def _port_tables(ports: Mapping[Direction, Mapping[Port, PortSpec]]) -> str:
    """Print direction -> ports by Spec, those of one Spec on one line."""
    lines = ["{"]
    for direction, specs in ports.items():
        lines.append(f'    "{direction.value}": ports(')
        alike: dict[str, list[Port]] = {}
        for port, spec in specs.items():
            alike.setdefault(_spec(spec), []).append(port)
        for text, of in alike.items():
            lines += [f"        ({text},", textwrap.indent(f"{literal(tuple(of))}),", " " * 9)]
        lines.append("    ),")
    return "\n    ".join("\n".join([*lines, "}"]).splitlines())


def _spec(spec: PortSpec) -> str:
    more = ", equal=True" if spec.placement is Placement.REPLICATE else ""
    more += f", valid={spec.valid}" if spec.valid is not None else ""
    more += f", within={spec.within}" if spec.within is not None else ""
    more += ", saved=True" if spec.saved else ""
    return f"Spec({spec.shape}, torch.{spec.dtype.value}{more})"


def literal(value: object) -> str:
    """Return Python text of plain data, its lines indented as in a call."""
    return "\n    ".join(pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False).splitlines())
