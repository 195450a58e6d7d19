"""Values to deploy: a Case with its proven ways, and the library and versions of their proof."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.emit.port_groups import PortGroup, port_groups
from overlayccl_core.program.kinds import Kind, Placement
from overlayccl_core.program.numerics import tolerance
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program

CHOSEN, PLAIN = "chosen", "plain"
"""Ways of every Case: what the run chose, and the developer's plain calls."""


class GradientPath(StrEnum):
    """Path of gradients through a group of a Case: its backward Program; the Case itself, the backward of an
    identity (Megatron's f); none.
    """

    BACKWARD = "backward"
    IN_BACKWARD = "in_backward"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Library and versions of proof and measurements.

    library: name by its backend (gloo, nccl). versions: those compared by the backend, by name; a module with
    others says so.
    """

    library: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A proven Program of one direction, with its name, its recipe (one line of JSON) and its NumericsClass."""

    candidate: str
    recipe: str
    numerics: str
    program: Program


Way = Mapping[Direction, Proven]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedCase:
    """A Case of a deployed module: its proven ways by name, CHOSEN and PLAIN among them.

    If the Case has a backward Problem (`has_backward`, by the catalog), every way needs a backward Program, even
    for the identity (`simplify(transpose(forward, ...))`). Otherwise none may have one.
    """

    case_id: str
    has_backward: bool
    ways: Mapping[str, Way]

    def __post_init__(self) -> None:
        if missing := {CHOSEN, PLAIN} - set(self.ways):
            raise ValueError(f"{self.case_id} has no way {' and no '.join(sorted(missing))}: give both")
        for name in (PLAIN, *self.ways):  # the others are compared with it
            self._check_way(name, self.ways[name])
        if self.gradient is GradientPath.IN_BACKWARD:
            self._check_identity()

    def _check_way(self, name: str, way: Way) -> None:
        """Raise ValueError unless a way has Programs of this Case, for the Problems of the plain calls."""
        if not (name.isascii() and name.isidentifier()):
            raise ValueError(
                f"{self.case_id}: {name!r} names a function of the module, too: letters, digits and _"
            )
        if list(way) != (list(Direction) if self.has_backward else [Direction.FORWARD]):
            raise ValueError(
                f"{self.case_id} {name}: each way of a Case with a backward needs `backward`, where it is the"
                " identity too, and one without needs none: give what catalog.backward asks for"
            )
        for direction, proven in way.items():
            of = proven.program.problem
            if of.case.id != self.case_id or of.direction is not direction:
                raise ValueError(
                    f"{self.case_id} {direction.value} {name}: got a Program of {of.case.id} {of.direction.value}"
                )
            if of != self.problems[direction]:
                raise ValueError(
                    f"{self.case_id} {direction.value} {name}: its Problem is not that of the plain calls, only the"
                    " name is the same: take Programs of one run"
                )

    def _check_identity(self) -> None:
        """Raise ValueError unless each group can be an identity in the forward pass.

        The index of each input must begin with that of one output of its shape and type.
        """
        problem = self.problems[Direction.FORWARD]
        alike = {p: (x.shape, x.dtype) for p, x in (*problem.inputs.items(), *problem.outputs.items())}
        for group in self.groups():
            beside = [
                [q for q in group.outputs if q[1:] == p[1 : len(q)] and alike[q] == alike[p]]
                for p in group.inputs
            ]
            if {q for of in beside for q in of} != set(group.outputs) or any(len(of) != 1 for of in beside):
                raise ValueError(
                    f"{self.case_id} sums partial values and has no backward, so its forward must be an identity:"
                    " the index of each input must begin with that of one output of its shape and type"
                )

    @property
    def gradient(self) -> GradientPath:
        """A Case of partial sums without a backward runs in the backward pass itself."""
        if self.has_backward:
            return GradientPath.BACKWARD
        inputs = self.problems[Direction.FORWARD].inputs.values()
        partial = all(spec.placement is Placement.PARTIAL for spec in inputs)
        return GradientPath.IN_BACKWARD if partial else GradientPath.NONE

    def groups(self) -> tuple[PortGroup, ...]:
        """Return the groups of ports for a script to call, one after the other."""
        return port_groups(self.programs(PLAIN)[Direction.FORWARD])

    @property
    def problems(self) -> dict[Direction, Problem]:
        """The Problems that every way solves, by direction."""
        return {direction: program.problem for direction, program in self.programs(PLAIN).items()}

    def programs(self, way: str) -> dict[Direction, Program]:
        """Return the Programs of a way, by direction."""
        return {direction: proven.program for direction, proven in self.ways[way].items()}

    def has_permutes(self) -> bool:
        """Return whether some way has a permute."""
        programs = [program for way in self.ways for program in self.programs(way).values()]
        return any(x.kind is Kind.COLLECTIVE_PERMUTE for program in programs for x in program.nodes)

    @property
    def is_exchange(self) -> bool:
        """Whether the plain calls are one all_to_all of the whole input, between all ranks."""
        outputs = list(self.programs(PLAIN)[Direction.FORWARD].outputs.values())
        of_inputs = [x for x in outputs if x.kind is Kind.ALL_TO_ALL and x.operands[0].kind is Kind.INPUT]
        return len(outputs) == 1 and any(x.groups.is_world for x in of_inputs)

    def tolerance(self, way: str, direction: Direction) -> float:
        """Return how far a way may be from the plain calls, by its numerics class and the rounding of both."""
        proven = self.ways[way][direction]
        return tolerance(proven.numerics, proven.program, self.programs(PLAIN)[direction])
