"""A Problem at a Case: the computation of all ranks together, and the model's own work around it."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overlayccl_core.program.case import Case, ParameterValue, count
from overlayccl_core.program.kinds import DType, Placement, Rejected
from overlayccl_core.program.nodes import Node, Port, make_input
from overlayccl_core.program.rowwise import ELEMENTARY


class Direction(StrEnum):
    """The pass of the training step."""

    FORWARD = "forward"
    BACKWARD = "backward"


Place = tuple[str, str]
"""(id of a Case, direction)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """One input or output as one rank sees it.

    Attributes:
        valid: Number of meaningful leading elements on each rank (0: none); None: all (full counts become None).
        within: Smallest and largest value of an element (None: any). Ids need it. A float may also be -inf, as
            padding.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    placement: Placement = Placement.VARYING  # what the ranks' values mean together
    cotangent: Placement = Placement.VARYING  # the same of their gradients
    valid: tuple[int, ...] | None = None
    within: tuple[int, int] | None = None
    saved: bool = False  # an output read by the backward only, as an input of the same name

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"a port's shape needs at least one axis and no empty one (got {self.shape})")
        if self.dtype is DType.INT64 and self.within is None:
            raise ValueError("a port of ids needs `within`: (0, the number of things that they name - 1)")
        if self.valid is None:
            return
        if not self.valid or min(self.valid) < 0 or max(self.valid) > self.size:
            raise ValueError(
                f"valid counts leading elements: between 0 and {self.size} on each rank (got {self.valid})"
            )
        if min(self.valid) == self.size:
            object.__setattr__(self, "valid", None)

    @property
    def size(self) -> int:
        """Elements on one rank."""
        return count(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The model's own work: it runs when `needs` (outputs) are written and `after` (segments) have run.

    Then its `gives` (inputs) exist. A segment that needs and gives nothing is left over: nothing waits for it, so
    it runs while a call is in flight if the Program lets it, and otherwise before the next segment.
    """

    name: Port
    needs: tuple[Port, ...] = ()
    gives: tuple[Port, ...] = ()
    after: tuple[Port, ...] = ()

    @property
    def left_over(self) -> bool:
        """True if it needs and gives nothing."""
        return not (self.needs or self.gives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Inputs for a trial of a Problem.

    Attributes:
        inputs: port -> [ranks, elements], or [1, elements] if all ranks hold the same.
        sizes: output -> sizes of its elements (default: 1), of each rank or equal on all. An error is relative to
            the larger of element and size.
    """

    inputs: Mapping[Port, NDArray[Any]]
    label: Callable[[Port, int], str]  # in words, the kind of data behind an element of an output
    sizes: Mapping[Port, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """The data treated alike by a Program (gates/alike.py)."""

    parts: NDArray[np.int64]  # int64[parts], numbers from 0 on, equal for parts computed in one way
    evenly: bool  # the parts computed in one way are interchangeable, and so are the named things of a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonlinear:
    """The backward and the test data of a nonlinear Problem; no rule derives them.

    Attributes:
        draws: draws(random, hostile, alike) gives the trial inputs; not hostile: the friendliest data only. Raises
            TooLarge if it cannot try everything that a Program treats apart.
        parts: port -> number of its rows, one for each of many parts of equal meaning (tokens, heads). An
            output in `parts` is made of one part in each row.
        named: Ports with an element in a row for each thing named by ids (words), split over the ranks in order;
            -inf there is padding. Without `named` nothing is known to be alike.
        operations: The nonlinear operations (rowwise.py) that may solve it; no others.
        means: output -> the port of `parts` whose mean it is, as a scaled sum; every other output is in `parts`.
        backward: The backward Problem. Its inputs are ports of the forward under their own names (outputs saved or
            not), and cotangents of outputs (`d_` before the name).
        backward_reference: The plainest correct strategy of the backward.
        wrong_saved: wrong_saved(inputs, saved), both port -> [ranks, elements], says in a sentence what a forward
            may not save; empty if every backward takes it.
    """

    draws: Callable[[np.random.Generator, bool, Alike | None], Iterable[Draw]]
    parts: Mapping[Port, int] = field(default_factory=dict)
    named: tuple[Port, ...] = ()
    operations: frozenset[str] = ELEMENTARY
    means: Mapping[Port, Port] = field(default_factory=dict)
    backward: "Problem | None" = None
    backward_reference: Callable[[Any, Any], None] | None = None
    wrong_saved: Callable[[Mapping[Port, NDArray[Any]], Mapping[Port, NDArray[Any]]], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A computation of all ranks at one Case: ports, segments, and the parameters of a strategy's `p`.

    Attributes:
        nonlinear: Backward and test data of a nonlinear Problem; None for one read from a file.
        arguments: name -> integers of each rank, equally many for all. The Case fixes them, a script may have
            others, and no tensor shows them.
    """

    case: Case
    direction: Direction = Direction.FORWARD
    inputs: Mapping[Port, PortSpec]
    outputs: Mapping[Port, PortSpec]
    segments: tuple[Segment, ...]
    parameters: Mapping[str, ParameterValue]
    linear: bool = True  # only linear operations may solve it, so the modular proof is complete
    nonlinear: Nonlinear | None = field(default=None, repr=False, compare=False)
    arguments: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    _giver: dict[Port, Segment] = field(default_factory=dict, init=False, repr=False, compare=False)
    _nodes: dict[Port, Node] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for port, spec in (*self.inputs.items(), *self.outputs.items()):
            if spec.valid is not None and len(spec.valid) != self.ranks:
                raise ValueError(
                    f"{self.case.id}: valid of {port} needs a count for each of the {self.ranks} ranks"
                    f" (got {len(spec.valid)})"
                )
        for name, rows in self.arguments.items():
            if len(rows) != self.ranks or len({*map(len, rows)}) != 1:
                raise ValueError(
                    f"{self.case.id}: {name} needs as many integers of each of the {self.ranks} ranks (got {rows})"
                )
        names = [s.name for s in self.segments]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.case.id}: segment names must differ")
        for segment in self.segments:
            for port in segment.needs:
                if port not in self.outputs:
                    raise ValueError(
                        f"{self.case.id}: segment {segment.name} needs {port}, which is no output"
                    )
            for port in segment.gives:
                if port not in self.inputs or port in self._giver:
                    raise ValueError(f"{self.case.id}: {port} must be an input that one segment gives")
                self._giver[port] = segment
            if unknown := set(segment.after) - set(names):
                raise ValueError(
                    f"{self.case.id}: segment {segment.name} comes after unknown {sorted(unknown)}"
                )

    @property
    def name(self) -> str:
        """`tp_mlp`, or `tp_mlp backward`."""
        return self.case.problem + (" backward" if self.direction is Direction.BACKWARD else "")

    @property
    def place(self) -> Place:
        """Its Case and direction."""
        return self.case.id, self.direction.value

    @property
    def ranks(self) -> int:
        """N."""
        return self.case.ranks

    @property
    def leaves_work(self) -> bool:
        """True if some segments are left over, to run while a call is in flight."""
        return any(s.left_over for s in self.segments)

    def giver(self, port: Port) -> Segment | None:
        """The segment that gives an input; None: the input exists from the start."""
        return self._giver.get(port)

    def input_node(self, port: Port) -> Node:
        """The node of an input; Rejected if the port is unknown."""
        node = self._nodes.get(port)
        if node is None:
            if port not in self.inputs:
                raise no_such("input", port, self.inputs)
            spec = self.inputs[port]
            equal = spec.placement is Placement.REPLICATE
            node = self._nodes[port] = make_input(port, equal=equal, size=spec.size, dtype=spec.dtype)
        return node


def of_every_problem(case: Case) -> dict[str, ParameterValue]:
    """The parameters of every Problem: p.world_size, p.ranks_per_node, p.dtype."""
    return {"world_size": case.ranks, "ranks_per_node": case.ranks_per_node, "dtype": case.dtype.value}


def port_text(port: Port) -> str:
    """partial[0, 3]"""
    return f"{port[0]}[{', '.join(map(str, port[1:]))}]" if len(port) > 1 else str(port[0])


def no_such(what: str, port: Port, known: Mapping[Port, PortSpec]) -> Rejected:
    """Return the error for an unknown input or output, naming the nearest port and the known ones."""
    names = [port_text(p) for p in known]
    close = difflib.get_close_matches(port_text(port), names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    some = ", ".join(names[:4]) + (f", ... ({len(names)} in all)" if len(names) > 4 else "")
    return Rejected(f"no {what} {port_text(port)}: {hint}there are {some}")
