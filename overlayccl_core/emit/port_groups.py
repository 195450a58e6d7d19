"""Groups of ports for a training script to call: inputs available together, and their outputs.

Reads and writes alternate with the model's own work. An input's level counts the runs of this work before the input
exists: the layer in a model of layers, always 0 with one segment. All inputs of a level may exist together in any
order of a Program. So groups belong to the Problem, and stay the same when another Program is deployed.
"""

from dataclasses import dataclass

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Port, topological
from overlayccl_core.program.program import Program, Read, Write
from overlayccl_core.program.segments import RunSegment, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class PortGroup:
    """Inputs of one level and their outputs, each by index, then by the Problem's order of names."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def port_groups(plain: Program) -> tuple[PortGroup, ...]:
    """Return the groups of a forward Problem, read off its plainest Program; ordered by their first input."""
    levels = _levels(plain)
    problem = plain.problem
    names = list(dict.fromkeys(port[0] for port in (*problem.inputs, *problem.outputs)))

    def order(port: Port) -> tuple[tuple[tuple[bool, int | str], ...], int]:
        return tuple((isinstance(part, str), part) for part in port[1:]), names.index(port[0])

    groups = [
        PortGroup(
            inputs=tuple(sorted((p for p in problem.inputs if levels[p] == level), key=order)),
            outputs=tuple(sorted((p for p in problem.outputs if levels[p] == level), key=order)),
        )
        for level in sorted(set(levels.values()))
    ]
    return tuple(sorted(groups, key=lambda g: [order(p) for p in (*g.inputs, *g.outputs)]))


def _levels(plain: Program) -> dict[Port, int]:
    """Return port -> how often outputs must have been written before it, counted along a legal run of the step."""
    levels: dict[Port, int] = {}
    ran: dict[Port, int] = {}
    for _, event in walk(plain):
        match event:
            case RunSegment(segment):
                before = [*(levels[p] + 1 for p in segment.needs), *(ran[name] for name in segment.after)]
                ran[segment.name] = max(before, default=0)
            case Read(port):
                giver = plain.problem.giver(port)
                levels[port] = ran[giver.name] if giver else 0
            case Write(port, node):
                below = [levels[x.port] for x in topological([node]) if x.kind is Kind.INPUT]
                levels[port] = max(below, default=0)
    for port in plain.problem.inputs:  # not read by the Program
        giver = plain.problem.giver(port)
        levels.setdefault(port, ran[giver.name] if giver else 0)
    return levels
