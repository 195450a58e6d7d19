"""Outputs of a Program without memory of their own."""

from collections.abc import Iterator

from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.lowering import Action, lower
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.program import Program

Place = tuple[Node, tuple[int, ...]]  # owner of a value's storage, and its start there on each rank


def shared_outputs(program: Program) -> dict[Port, Port | None]:
    """Return the outputs that share memory with an input or with another output, as the Program is lowered.

    output -> the identical input; None: a part of an input, or an overlap with an output not listed. Outputs not
    listed share memory with no input and with none of each other, on any rank.
    """
    places: dict[Node, Place] = {}
    parts: dict[Node, list[tuple[Port, Node]]] = {}
    for step in lower(program):
        for x in step.nodes:
            if step.action is Action.WRITE:
                assert step.port is not None
                parts.setdefault(places[x][0], []).append((step.port, x))
            elif step.plan is not None and step.plan.is_alias:
                pieces = [row[0] for row in step.plan.pieces]
                owner, starts = places[x.operands[pieces[0].operand]]
                rows = max(len(pieces), len(starts))
                begin, more = starts * (rows // len(starts)), pieces * (rows // len(pieces))
                places[x] = owner, tuple(a + piece.start for a, piece in zip(begin, more, strict=True))
            elif step.action is not Action.WAIT:
                places[x] = places[x.operands[0]] if x in step.in_place else (x, (0,))
    shared: dict[Port, Port | None] = {}
    for owner, of in parts.items():
        if owner.kind is Kind.INPUT:
            shared |= {port: owner.port if x.size == owner.size else None for port, x in of}
        else:
            shared |= dict.fromkeys(_overlapping([(port, places[x][1], x.size) for port, x in of]))
    return shared


def _overlapping(of: list[tuple[Port, tuple[int, ...], int]]) -> Iterator[Port]:
    """Yield ports of (port, starts, size): without them, none overlaps another on any rank."""
    for rank in range(max(len(starts) for _, starts, _ in of)):
        end = 0
        begins = [(starts[rank % len(starts)], port, size) for port, starts, size in of]
        for begin, port, size in sorted(begins, key=lambda one: one[0]):
            if begin < end:
                yield port
            else:
                end = begin + size
