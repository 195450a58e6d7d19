"""A probe: a small Program, of a Problem of its own, timed to learn the deployment."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from overlayccl_core.program import nodes
from overlayccl_core.program.calls import bare, make_call
from overlayccl_core.program.case import Case
from overlayccl_core.program.groups import Groups, world
from overlayccl_core.program.kinds import NO_LABEL, DType, Kind, Label
from overlayccl_core.program.maps import Map
from overlayccl_core.program.nodes import Node, Port
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import BOUNDARY, Event, Issue, Program, Read, Write


class ProbeRole(StrEnum):
    """Use of a probe's timings."""

    STRUCTURED = "structured"
    SHAPE = "shape"
    MIXED = "mixed"
    HELD_OUT = "heldout"
    BESIDE = "beside"  # calls beside computing, whose costs are fitted apart

    @property
    def fits_theta(self) -> bool:
        """False of what judges it, and of what has a fit of its own."""
        return self not in (ProbeRole.HELD_OUT, ProbeRole.BESIDE)

    @property
    def judges(self) -> bool:
        """True of Programs like those to be priced: their cross-validated errors judge the fit."""
        return self in (ProbeRole.SHAPE, ProbeRole.MIXED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A Program to be timed, with a descriptive name."""

    name: str
    role: ProbeRole
    program: Program


class ProbeBuilder:
    """Collects the events of a probe; its Problem (ports in order of use) is complete at `finish`.

    One segment gives all inputs; every port is Varying. The order of `issue` and `write` is the schedule: writing a
    collective's result at once makes the Program wait for it. Where ranks compile (`uniform`), a graph has no
    schedule: a collective follows another by reading it.
    """

    def __init__(self, ranks: int, ranks_per_node: int, *, uniform: bool = False) -> None:
        self.ranks = ranks
        self.uniform = uniform
        self._ranks_per_node = ranks_per_node
        self._events: list[Event] = []
        self._inputs: dict[Port, PortSpec] = {}
        self._outputs: dict[Port, PortSpec] = {}
        self._graph = 0

    def read(self, size: int, dtype: DType = DType.FLOAT32) -> Node:
        """Read a fresh input of `size` elements."""
        port: Port = ("x", len(self._inputs))
        self._inputs[port] = PortSpec(shape=(size,), dtype=dtype)
        self._events.append(Read(port))
        return nodes.make_input(port, equal=False, size=size, dtype=dtype)

    def issue(self, kind: Kind, operand: Node, groups: Groups | None = None, *, shift: int = 1) -> Node:
        """Start a collective; collective_permute shifts by `shift` ranks inside each group."""
        members = groups or world(self.ranks)
        if kind is Kind.COLLECTIVE_PERMUTE:
            before = (members.place - shift) % members.size
            made = nodes.make_permute(operand, members.array[members.group, before].tolist(), self._label)
        else:
            made = nodes.make_collective(kind, operand, members, self._label)
        self._events.append(Issue((bare(made),)))
        return made

    def issue_call(self, kind: Kind, operands: Sequence[Node]) -> list[Node]:
        """Start the collectives of several operands over all ranks by one call."""
        made = make_call(kind, operands, world(self.ranks), self._label)
        self._events.append(Issue(tuple(map(bare, made))))
        return made

    def write(self, node: Node) -> None:
        port: Port = ("y", len(self._outputs))
        self._outputs[port] = PortSpec(shape=(node.size,), dtype=node.dtype)
        self._events.append(Write(port, node))

    def boundary(self) -> None:
        self._events.append(BOUNDARY)
        self._graph += 1

    @property
    def _label(self) -> Label:
        return Label(graph=f"g{self._graph}") if self._graph else NO_LABEL

    def finish(self, name: str, role: ProbeRole = ProbeRole.STRUCTURED, **parameters: Any) -> Probe:
        """Return the probe; `parameters` (integers) tell Cases of one name apart."""
        case = Case(
            problem="probe",
            ranks=self.ranks,
            ranks_per_node=self._ranks_per_node,
            uniform=self.uniform,
            name=name,
            parameters=tuple(sorted(parameters.items())),
        )
        problem = Problem(
            case=case,
            inputs=self._inputs,
            outputs=self._outputs,
            segments=(Segment(name=("model",), gives=tuple(self._inputs)),),
            parameters=dict(case.parameters),
        )
        return Probe(name=name, role=role, program=Program(problem, self._events))


def operand_size(kind: Kind, payload: int, group_size: int) -> int:
    """Return the elements of an operand for a larger side of `payload`, rounded up to whole blocks."""
    blocks = -(-payload // group_size)
    return blocks if kind is Kind.ALL_GATHER else blocks * group_size


def resized(x: Node, size: int) -> Node:
    starts = np.arange(0, size, x.size)
    return nodes.make_view([x], Map(1, size, starts, np.zeros(len(starts), np.int64)))
