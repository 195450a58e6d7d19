"""Values to deploy: a Case with its chosen and plain Programs, and the library and versions of their proof."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.emit.port_groups import PortGroup, port_groups
from overlayccl_core.program.kinds import Kind, Placement
from overlayccl_core.program.numerics import tolerance
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program


class Side(StrEnum):
    """The chosen Programs of a Case, or the developer's: the plain calls."""

    CHOSEN = "chosen"
    PLAIN = "plain"


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
class DeployedCase:
    """A Case of a deployed module: the chosen Programs, and the developer's, the plain calls.

    `candidate`, `recipe` (one line of JSON) and `numerics` (a NumericsClass) are the forward's; with `backward_`
    the backward's. A Case with a backward Problem (`has_backward`, by the catalog) needs backward Programs, even
    for the identity (`simplify(transpose(forward, ...))`); any other Case must have none.
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
        """Raise ValueError unless each group can be an identity in the forward pass.

        The index of each input must begin with that of one output of its shape and type.
        """
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
        """A Case of partial sums without a backward runs in the backward pass itself."""
        if self.has_backward:
            return GradientPath.BACKWARD
        inputs = self.forward.problem.inputs.values()
        partial = all(spec.placement is Placement.PARTIAL for spec in inputs)
        return GradientPath.IN_BACKWARD if partial else GradientPath.NONE

    def groups(self) -> tuple[PortGroup, ...]:
        """Return the groups of ports for a script to call, one after the other."""
        return port_groups(self.plain_forward)

    def programs(self, side: Side) -> dict[Direction, Program]:
        """Return the Programs of a side, by direction."""
        forward = self.forward if side is Side.CHOSEN else self.plain_forward
        backward = self.backward if side is Side.CHOSEN else self.plain_backward
        both = {Direction.FORWARD: forward}
        return both if backward is None else {**both, Direction.BACKWARD: backward}

    def all_programs(self) -> Iterator[Program]:
        """Yield the Programs of both sides and directions."""
        for side in Side:
            yield from self.programs(side).values()

    def same_calls(self) -> bool:
        """Return whether the chosen calls are the plain ones."""
        chosen, plain = (
            [program.digest for program in self.programs(side).values()] for side in (Side.CHOSEN, Side.PLAIN)
        )
        return chosen == plain

    def has_permutes(self) -> bool:
        """Return whether one of its Programs has a permute."""
        return any(x.kind is Kind.COLLECTIVE_PERMUTE for p in self.all_programs() for x in p.nodes)

    def tolerance(self, direction: Direction) -> float:
        """Return how far the chosen calls may be from the plain ones, by numerics class and rounding of both."""
        numerics = self.numerics if direction is Direction.FORWARD else self.backward_numerics
        return tolerance(numerics, *(self.programs(side)[direction] for side in Side))
