"""The ways of a call that a tuner may take: its known ways, each in one, two and four parts; all proven."""

from collections.abc import Sequence
from dataclasses import dataclass

from overlayccl_core import catalog
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.gates import equivalence, legality
from overlayccl_core.program.kinds import COLLECTIVES, NotApplicable, Rejected
from overlayccl_core.program.library import Role, read_library
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import DoesNotApply, apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.rewrites.recipe import Recipe, replay

PARTS = (1, 2, 4)
IN_FLIGHT = "in_flight", "all"  # the rule by which parts do not wait for each other, and its knob


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWay:
    """A proven way.

    Attributes:
        family: The known way that it is made of.
        parts: Into how many calls in flight each of its calls is split.
        numerics: Its NumericsClass; never lossy.
    """

    family: str
    parts: int
    recipe: Recipe
    program: Program
    numerics: str

    @property
    def name(self) -> str:
        """An identifier."""
        return self.family if self.parts == 1 else f"{self.family}_in_{self.parts}"


def space_of(
    problem: Problem,
    capabilities: Capabilities | None,
    memory_budget_bytes: int | None,
    parts_of_calls: Sequence[int] = PARTS,
) -> list[OpenWay]:
    """Return the ways of a forward Problem, its developer's first; of those that run alike the first.

    Args:
        capabilities: What the library can do; None restricts nothing.
        parts_of_calls: Into how many parts each call may be split; 1: it stays whole.

    Raises:
        ValueError: No developer's own is proven.
    """
    reference = catalog.reference_program(problem)
    ways: dict[str, OpenWay] = {}
    for name, role in read_library(catalog.library_source(problem.case.problem)).strategies:
        if role is not Role.DEVELOPER and not ways:
            raise ValueError(f"{problem.case.id}: no call that a script would make is legal and proven here")
        for parts in parts_of_calls:
            if (made := _made(problem, name, parts)) is None:
                break
            recipe, program = made
            if program.run_digest in ways:
                continue
            if not legality.check(program, capabilities, memory_budget_bytes).passed:
                continue
            proof = equivalence.prove(program, reference)
            numerics = str(dict(proof.evidence).get("numerics"))
            if proof.passed and numerics != NumericsClass.LOSSY:
                ways[program.run_digest] = OpenWay(
                    family=name, parts=parts, recipe=recipe, program=program, numerics=numerics
                )
    return list(ways.values())


def _made(problem: Problem, name: str, parts: int) -> tuple[Recipe, Program] | None:
    """Return a known way in so many parts; None if it is no way here, or its calls are too short."""
    recipe = Recipe(base=name)
    try:
        program = replay(recipe, problem)
    except (NotApplicable, Rejected):
        return None
    if parts == 1:
        return recipe, program
    for rule, knob in (("split", str(parts)), IN_FLIGHT):
        for site_class in list(site_classes(program, COLLECTIVES)):
            step = (rule, site_class, knob)
            try:
                program = apply(program, step)
            except DoesNotApply:
                continue
            recipe = Recipe(base=name, steps=(*recipe.steps, step))
    return (recipe, program) if any(rule == "split" for rule, _, _ in recipe.steps) else None
