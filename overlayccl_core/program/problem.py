"""A Problem at a Case: what the ranks must compute together, and the model's own work around it."""

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


class Direction(StrEnum):
    """Which pass of the training step a Problem belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """One input or output as one rank sees it.

    `placement` says what the ranks' values mean together, `cotangent` the same of their gradients;
    `valid`: how many leading elements mean anything, on each rank (0: none); None, also where all are given: all.
    `within`: the smallest and the largest value that an element may have (None: any); ids need it, and a float may
    be -inf beside, which is padding. `saved`: an output that nobody but the backward reads, which has an input of
    the same name.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    placement: Placement = Placement.VARYING
    cotangent: Placement = Placement.VARYING
    valid: tuple[int, ...] | None = None
    within: tuple[int, int] | None = None
    saved: bool = False

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
    """The model's own work: runs when `needs` (outputs) are written and `after` (segments) have run; then its
    `gives` (inputs) exist.

    What needs and gives nothing is left over: nobody waits for it, so it runs while a call is in flight where a
    Program lets it, and else before the next segment.
    """

    name: Port
    needs: tuple[Port, ...] = ()
    gives: tuple[Port, ...] = ()
    after: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Inputs that a Problem is tried on: port -> [ranks, or 1 where all hold the same; elements].

    `label`: in words, what kind of data an element of an output comes from. sizes: output -> what errors of its
    elements are compared with where these are smaller (default: 1).
    """

    inputs: Mapping[Port, NDArray[Any]]
    label: Callable[[Port, int], str]
    sizes: Mapping[Port, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """What a Program treats alike of its data (gates/alike.py).

    parts: int64[parts], one number for all that are computed in one way, from 0 on. evenly: in one way no part is
    told from another, and no named thing from another of its rank.
    """

    parts: NDArray[np.int64]
    evenly: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonlinear:
    """What a Problem brings that is not linear: no rule derives its backward, or data that tells right from wrong.

    draws(random, hostile, alike): what it is tried on; not hostile: the friendliest data only. TooLarge where it
    cannot try all that a Program treats apart. parts: port -> how many rows it has, of parts that mean the same
    (tokens). named: ports with an element in a row for each thing that ids name (words), split over the ranks in
    order; -inf there is padding. Without these nothing is known to be alike. means: an output -> the one of `parts`
    whose mean it is, as a sum that is scaled; every other is of `parts`. backward: its Problem, whose inputs are
    ports of the forward by their own names and cotangents of outputs (`d_` before the name). backward_reference:
    the plainest right strategy of that. wrong_saved(inputs, saved): what a forward may not save (port -> [ranks,
    elements]), in a sentence; empty where every backward takes it.
    """

    draws: Callable[[np.random.Generator, bool, Alike | None], Iterable[Draw]]
    parts: Mapping[Port, int] = field(default_factory=dict)
    named: tuple[Port, ...] = ()
    means: Mapping[Port, Port] = field(default_factory=dict)
    backward: "Problem | None" = None
    backward_reference: Callable[[Any, Any], None] | None = None
    wrong_saved: Callable[[Mapping[Port, NDArray[Any]], Mapping[Port, NDArray[Any]]], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What must be computed at one Case: ports, segments, and the parameters that a strategy sees as `p`.

    `linear`: only linear operations may solve it (which is what makes the modular proof complete). `nonlinear`:
    what one that is not linear brings instead; a Problem that was read from a file has it not. `arguments`: what a
    Case fixes, a script may have otherwise, and no tensor shows, by name: integers of each rank, as many of all.
    """

    case: Case
    direction: Direction = Direction.FORWARD
    inputs: Mapping[Port, PortSpec]
    outputs: Mapping[Port, PortSpec]
    segments: tuple[Segment, ...]
    parameters: Mapping[str, ParameterValue]
    linear: bool = True
    nonlinear: Nonlinear | None = field(default=None, repr=False, compare=False)
    arguments: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    _giver: dict[Port, Segment] = field(default_factory=dict, repr=False, compare=False)
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
    def ranks(self) -> int:
        """N."""
        return self.case.ranks

    @property
    def leaves_work(self) -> bool:
        """Whether some segments are left over, to be done while a call is in flight."""
        return any(not (s.needs or s.gives) for s in self.segments)

    def giver(self, port: Port) -> Segment | None:
        """The segment that gives an input; None: it exists from the start."""
        return self._giver.get(port)

    def input_node(self, port: Port) -> Node:
        """The node of an input; Rejected if there is none of that name."""
        node = self._nodes.get(port)
        if node is None:
            if port not in self.inputs:
                raise no_such("input", port, self.inputs)
            spec = self.inputs[port]
            equal = spec.placement is Placement.REPLICATE
            node = self._nodes[port] = make_input(port, equal=equal, size=spec.size, dtype=spec.dtype)
        return node


def of_every_problem(case: Case) -> dict[str, ParameterValue]:
    """The parameters that a strategy may rely on, whatever it solves: p.world_size, p.ranks_per_node, p.dtype."""
    return {"world_size": case.ranks, "ranks_per_node": case.ranks_per_node, "dtype": case.dtype.value}


def port_text(port: Port) -> str:
    """partial[0, 3]"""
    return f"{port[0]}[{', '.join(map(str, port[1:]))}]" if len(port) > 1 else str(port[0])


def no_such(what: str, port: Port, known: Mapping[Port, PortSpec]) -> Rejected:
    """The message for a port that is none of the known inputs or outputs: the nearest one, and what there are."""
    names = [port_text(p) for p in known]
    close = difflib.get_close_matches(port_text(port), names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    some = ", ".join(names[:4]) + (f", ... ({len(names)} in all)" if len(names) > 4 else "")
    return Rejected(f"no {what} {port_text(port)}: {hint}there are {some}")
