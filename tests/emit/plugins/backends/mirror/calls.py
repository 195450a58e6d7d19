"""The calls of a library that needs no other process: this is rank 0 of two, and the other one holds the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

import torch

MAX = "max"


class Done:
    """A work that has ended."""

    def wait(self) -> None:
        """At once."""


def all_reduce(x: torch.Tensor, group: tuple[int, ...], op: str = "sum") -> tuple[torch.Tensor, Done]:
    """In place."""
    return (x if op == MAX else x.mul_(len(group))), Done()


def this_rank() -> int:
    """Always the first."""
    return 0


def world_size() -> int:
    """Itself and the mirror."""
    return 2


def my_group(
    replica_groups: Iterable[tuple[int, ...]],
    members: Iterable[tuple[int, ...]],
    new_group: Callable[[tuple[int, ...]], Any],
) -> tuple[int, ...]:
    """A group is its ranks."""
    return tuple(next(group for group in replica_groups if 0 in group))


def make_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """A group is its ranks."""
    return ranks


def kept_group(ranks: tuple[int, ...]) -> tuple[int, ...]:
    """A group is its ranks."""
    return ranks


def permute_group(library: str) -> None:
    """It has no permutes."""


def everybody_says(mine: Any, group: Any = None) -> list[Any]:
    """The mirror says the same."""
    return [mine, mine]


def check_started() -> None:
    """It always is."""


def found(device: torch.device) -> dict[str, str]:
    """It has one version."""
    return {"library": "mirror", "mirror": "1", "torch": metadata.version("torch")}
