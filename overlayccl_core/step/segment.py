"""Segments of a training step: the model's own work between collectives, over named values of several sites."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from overlayccl_core.program.nodes import Port

Value = tuple[str, Port]  # (site, port): a port of the Problem at one site of the step
Name = tuple[str | int, ...]
Work = Callable[[Mapping[Value, Any]], Mapping[Value, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The place of a segment in the step: it runs when `needs` are written and `after` have run.

    Then its `gives` exist.
    """

    name: Name
    needs: tuple[Value, ...] = ()
    gives: tuple[Value, ...] = ()
    after: tuple[Name, ...] = ()
    left_over: bool = False  # run while a module has a call in flight, else before the next segment


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSegment(Outline):
    """A segment with its work."""

    work: Work  # {needs: tensors of the port's shape} -> {gives: tensors}, all detached
