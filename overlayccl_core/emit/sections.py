"""A Program's statements in sections, one for each group of ports."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from overlayccl_core.emit.shared_memory import shared_outputs
from overlayccl_core.emit.torch_dialect import ModuleStore, StepPrinter
from overlayccl_core.program.calls import call_name
from overlayccl_core.program.lowering import Action, Step, lower
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedSection:
    """Statements of a Program that use no value of another section.

    Attributes:
        group: Group of all its ports; None if the Program does not fall into groups.
        calls: Number of calls of each collective.
        shared: Entries of `shared_outputs` for its outputs.
    """

    group: int | None
    lines: tuple[str, ...]
    calls: Mapping[str, int]
    shared: Mapping[Port, Port | None]


def printed_sections(
    program: Program, store: ModuleStore, group_of: Mapping[Port, int]
) -> tuple[list[PrintedSection], str]:
    """Return the Program's statements in sections of one group each, and an empty message.

    If a section would have ports of two groups, the Program does not fall into groups: it is one section, and the
    message names two such ports.
    """
    printer = StepPrinter(store, program)
    parts: list[tuple[int | None, list[Step]]] = []
    message = ""
    for steps in _independent(program):
        ports = {group_of[step.port]: step.port for step in steps if step.port is not None}
        if len(ports) > 1 and not message:
            one, other = (port_text(port) for port in list(ports.values())[:2])
            message = f"{one} and {other} are handled together, though one waits for the other's group"
        group = next(iter(ports), parts[-1][0] if parts else None)
        if parts and parts[-1][0] == group:
            parts[-1][1].extend(steps)
        else:
            parts.append((group, steps))
    if message:
        parts = [(None, list(lower(program)))]
    shared = {} if message else shared_outputs(program)
    return [_section(group, steps, printer, shared) for group, steps in parts], message


def _section(
    group: int | None, steps: list[Step], printer: StepPrinter, shared: Mapping[Port, Port | None]
) -> PrintedSection:
    first = len(printer.lines)
    for step in steps:
        printer.step(step)
    started = [call_name(step.nodes) for step in steps if step.action is Action.START]
    written = [step.port for step in steps if step.action is Action.WRITE and step.port is not None]
    return PrintedSection(
        group=group,
        lines=tuple(printer.lines[first:]),
        calls=dict(Counter(started)),
        shared={port: shared[port] for port in written if port in shared},
    )


def _independent(program: Program) -> Iterator[list[Step]]:
    """Cut the steps wherever no value is alive."""
    alive: set[Node] = set()
    steps: list[Step] = []
    for step in lower(program):
        steps.append(step)
        alive.update(step.nodes)
        alive.difference_update(step.frees)
        if not alive and step.action is not Action.BOUNDARY:
            yield steps
            steps = []
    if steps:
        yield steps
