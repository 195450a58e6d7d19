"""What is deployed, as values: a Case with its chosen and its plain Programs, and what they were proven with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.emit.port_groups import PortGroup, port_groups
from overlayccl_core.program.kinds import Kind, Placement
from overlayccl_core.program.numerics import tolerance
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program


class Side(StrEnum):
    """Which Programs of a Case: those that were chosen, or the developer's, which are the plain calls."""

    CHOSEN = "chosen"
    PLAIN = "plain"


class GradientPath(StrEnum):
    """How gradients pass a group of a Case: by its backward Program; through the Case itself, which is the
    backward of an identity (Megatron's f); not at all."""

    BACKWARD = "backward"
    IN_BACKWARD = "in_backward"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What proof and measurements were made with.

    library: as its backend calls it (gloo, nccl). versions: what the backend compares, by name; a module that is
    used with others says so.
    """

    library: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedCase:
    """A Case of a deployed module: the chosen Programs, and the developer's, which are the plain calls.

    candidate, recipe (one line of JSON), numerics (a NumericsClass): of the forward; with `backward_` of the
    backward. Backward Programs are needed where the Case has a backward Problem, the identity included
    (`simplify(transpose(forward, ...))`), and only there: `has_backward` is what the catalog says.
    """

    case_id: str
    candidate: str
    recipe: str
    numerics: str
    forward: Program
    plain_forward: Program
    has_backward: bool
    backward: Program | None = None
    plain_backward: Program | None = None
    backward_candidate: str = ""
    backward_recipe: str = ""
    backward_numerics: str = ""

    def __post_init__(self) -> None:
        if (self.backward is None) is self.has_backward or (self.plain_backward is None) is self.has_backward:
            raise ValueError(
                f"{self.case_id}: a Case with a backward needs `backward` and `plain_backward`, where it is the"
                " identity too, and one without needs none of them: give what catalog.backward asks for"
            )
        for side in Side:
            for direction, program in self.programs(side).items():
                of = program.problem
                if of.case.id != self.case_id or of.direction is not direction:
                    raise ValueError(
                        f"{self.case_id} {direction.value}: got a Program of {of.case.id} {of.direction.value}"
                    )
        if self.gradient is GradientPath.IN_BACKWARD:
            self._check_identity()

    def _check_identity(self) -> None:
        """Where a group is an identity in the forward pass, the index of each input begins with that of one output
        of its shape and type."""
        problem = self.forward.problem
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
        """A Case of partial sums that has no backward runs in the backward pass itself."""
        if self.has_backward:
            return GradientPath.BACKWARD
        inputs = self.forward.problem.inputs.values()
        partial = all(spec.placement is Placement.PARTIAL for spec in inputs)
        return GradientPath.IN_BACKWARD if partial else GradientPath.NONE

    def groups(self) -> tuple[PortGroup, ...]:
        """What a script can call, one after the other."""
        return port_groups(self.plain_forward)

    def programs(self, side: Side) -> dict[Direction, Program]:
        """By direction."""
        forward = self.forward if side is Side.CHOSEN else self.plain_forward
        backward = self.backward if side is Side.CHOSEN else self.plain_backward
        both = {Direction.FORWARD: forward}
        return both if backward is None else {**both, Direction.BACKWARD: backward}

    def all_programs(self) -> Iterator[Program]:
        """Of both sides and directions."""
        for side in Side:
            yield from self.programs(side).values()

    def same_calls(self) -> bool:
        """True if the chosen calls are the plain ones."""
        chosen, plain = (
            [program.digest for program in self.programs(side).values()] for side in (Side.CHOSEN, Side.PLAIN)
        )
        return chosen == plain

    def has_permutes(self) -> bool:
        """True if one of its Programs has a permute."""
        return any(x.kind is Kind.COLLECTIVE_PERMUTE for p in self.all_programs() for x in p.nodes)

    def tolerance(self, direction: Direction) -> float:
        """How far the chosen calls may be from the plain ones: the class, or what the plain ones do themselves."""
        numerics = self.numerics if direction is Direction.FORWARD else self.backward_numerics
        return tolerance(numerics, *(self.programs(side)[direction] for side in Side))
