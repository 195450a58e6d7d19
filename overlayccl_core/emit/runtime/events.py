"""The two events of a generator, and how generators are answered."""

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


Port = tuple[int | str, ...]
Events = Generator[Read | Write, torch.Tensor, None]
Section = tuple[int | None, Callable[[], Events]]  # the group of its ports, None: of several; its statements


def in_order(sections: Iterable[Section]) -> Events:
    """The events of sections, one behind the other."""
    for _, section in sections:
        yield from section()


def answer(
    sections: Iterable[Section], given: dict[Port, torch.Tensor], results: dict[Port, torch.Tensor]
) -> None:
    """Run sections: answer Reads from `given`, each once, put Writes into `results`."""
    for _, section in sections:
        generator = section()
        try:
            event = next(generator)
            while True:
                if isinstance(event, Read):
                    event = generator.send(given.pop(event.port))
                else:
                    results[event.port] = event.value
                    event = next(generator)
        except StopIteration:
            pass
