"""A Program's statements in sections, one for each group of ports that a script calls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from overlayccl_core.emit.torch_dialect import ModuleStore, StepPrinter, tags_of
from overlayccl_core.program.lowering import Action, Step, lower
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Statements of a Program that use no value of another section.

    group: the one that all its ports are in; None where the Program does not fall into groups.
    """

    group: int | None
    lines: tuple[str, ...]


def printed_sections(
    program: Program, store: ModuleStore, group_of: Mapping[Port, int]
) -> tuple[list[Section], str]:
    """The Program's statements in sections of one group each, and no message.

    Where a section would have ports of two groups, the Program does not fall into groups: it is one section, and
    the message names two such ports.
    """
    printer = StepPrinter(store, tags_of(program))
    sections: list[Section] = []
    message = ""
    for steps in _independent(program):
        first = len(printer.lines)
        for step in steps:
            printer.step(step)
        lines = tuple(printer.lines[first:])
        ports = {group_of[step.port]: step.port for step in steps if step.port is not None}
        if len(ports) > 1 and not message:
            one, other = (port_text(port) for port in list(ports.values())[:2])
            message = f"{one} and {other} are handled together, though one waits for the other's group"
        group = next(iter(ports), sections[-1].group if sections else None)
        if sections and sections[-1].group == group:
            sections[-1] = Section(group=group, lines=(*sections[-1].lines, *lines))
        else:
            sections.append(Section(group=group, lines=lines))
    if message:
        return [Section(group=None, lines=tuple(printer.lines))], message
    return sections, ""


def _independent(program: Program) -> Iterator[list[Step]]:
    """The steps, cut wherever no value is alive."""
    alive: set[Node] = set()
    steps: list[Step] = []
    for step in lower(program):
        steps.append(step)
        if step.node is not None:
            alive.add(step.node)
        alive.difference_update(step.frees)
        if not alive and step.action is not Action.BOUNDARY:
            yield steps
            steps = []
    if steps:
        yield steps
