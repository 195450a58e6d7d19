"""A Program at another Problem with ports of the same meaning."""

from collections.abc import Mapping

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, Port, rebuild
from overlayccl_core.program.problem import Problem, port_text
from overlayccl_core.program.program import Boundary, Event, Issue, Program, Read, Write


def ports_in_order(source: Problem, target: Problem) -> dict[Port, Port]:
    """Pair the ports of two Problems by their order.

    Raises:
        ValueError: Numbers, shapes or dtypes differ.
    """
    pairs: dict[Port, Port] = {}
    for here, there in ((source.inputs, target.inputs), (source.outputs, target.outputs)):
        if len(here) != len(there):
            raise ValueError(f"{source.name} has {len(here)} ports where {target.name} has {len(there)}")
        for (port, spec), (other, wanted) in zip(here.items(), there.items(), strict=True):
            if (spec.shape, spec.dtype) != (wanted.shape, wanted.dtype):
                raise ValueError(
                    f"{port_text(port)} of {source.name} is {spec.shape} {spec.dtype.value},"
                    f" {port_text(other)} of {target.name} is {wanted.shape} {wanted.dtype.value}"
                )
            pairs[port] = other
    return pairs


def renamed(program: Program, problem: Problem, ports: Mapping[Port, Port]) -> Program:
    """The Program with its events in the same order, at `problem`; ports: old -> new."""
    new: dict[Node, Node] = {}
    for x in program.nodes:
        new[x] = rebuild(x, [new[y] for y in x.operands]) if x.operands else _leaf(x, problem, ports)
    return Program(problem, [_renamed(event, new, ports) for event in program.events])


def _leaf(x: Node, problem: Problem, ports: Mapping[Port, Port]) -> Node:
    return problem.input_node(ports[x.port]) if x.kind is Kind.INPUT else x


def _renamed(event: Event, new: Mapping[Node, Node], ports: Mapping[Port, Port]) -> Event:
    match event:
        case Read(port):
            return Read(ports[port])
        case Issue(call):
            return Issue(tuple(new[node] for node in call))
        case Write(port, node):
            return Write(ports[port], new[node])
        case Boundary():
            return event
