"""The two events of a generator, and how to answer them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import torch


class Read:
    """Asks for an input."""

    __slots__ = ("port",)

    def __init__(self, *port: int | str) -> None:
        self.port = port


class Write:
    """Gives an output."""

    __slots__ = ("port", "value")

    def __init__(self, *port_and_value: Any) -> None:
        self.port = port_and_value[:-1]
        self.value = port_and_value[-1]


def meanwhile() -> None:
    """Called while a call is in flight: a script with other work to do sets `MODULE.meanwhile`."""


Port = tuple[int | str, ...]
Events = Generator[Read | Write, torch.Tensor, None]


class Section:
    """Statements that use no value of another section.

    group: the one of its ports, None: of several. calls: of the library each time, by collective. shared: outputs
    without memory of their own -> the identical input, or None: a part of one, or of another output.
    runs: how often it ran to its end.
    """

    __slots__ = ("calls", "group", "runs", "shared", "statements")

    def __init__(
        self,
        group: int | None,
        statements: Callable[[], Events],
        calls: dict[str, int],
        shared: dict[Port, Port | None] | None = None,
    ) -> None:
        self.group, self.statements, self.calls, self.shared = group, statements, calls, shared or {}
        self.runs = 0


def in_order(sections: Iterable[Section]) -> Events:
    """Yield the events of sections, one behind the other."""
    for section in sections:
        yield from section.statements()
        section.runs += 1


def answer(events: Events, given: dict[Port, torch.Tensor], results: dict[Port, torch.Tensor]) -> None:
    """Run a generator: answer Reads from `given`, each once, put Writes into `results`."""
    try:
        event = next(events)
        while True:
            if isinstance(event, Read):
                event = events.send(given.pop(event.port))
            else:
                results[event.port] = event.value
                event = next(events)
    except StopIteration:
        pass


def calls_of(sections: Iterable[Section]) -> dict[str, int]:
    """Count the library's calls so far, by collective: statements have no branches."""
    calls: dict[str, int] = {}
    for section in sections:
        for name, times in section.calls.items():
            if section.runs:
                calls[name] = calls.get(name, 0) + times * section.runs
    return calls
