"""Some nodes of a graph in the place of others."""

from collections.abc import Mapping

from overlayccl_core.program.kinds import NO_LABEL
from overlayccl_core.program.nodes import Node, Outputs, Replacement, rebuild, relabel, topological


def substitute(outputs: Outputs, replacements: Mapping[Node, Replacement]) -> Outputs:
    """Return the outputs with some nodes replaced.

    Args:
        replacements: node -> function(go) -> its replacement; go(x) is the new form of any node x.
    """
    new: dict[Node, Node] = {}

    def go(x: Node) -> Node:
        if x not in new:
            if x in replacements:
                new[x] = replacements[x](go)
            else:
                operands = [go(y) for y in x.operands]
                same = all(a is b for a, b in zip(operands, x.operands, strict=True))
                new[x] = x if same else rebuild(x, operands)
        return new[x]

    for x in topological(outputs.values()):  # operands first: keeps the recursion shallow
        go(x)
    return {port: go(x) for port, x in outputs.items()}


def without_labels(outputs: Outputs) -> Outputs:
    """The outputs with every collective unlabelled; equal collectives of different graphs become one."""
    labelled = [x for x in topological(outputs.values()) if x.is_collective and x.label != NO_LABEL]

    def unlabelled(x: Node) -> Replacement:
        return lambda go: relabel(x, go(x.operands[0]), NO_LABEL)

    return substitute(outputs, {x: unlabelled(x) for x in labelled})
