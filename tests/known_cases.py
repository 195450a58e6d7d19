"""Small Cases of the Problems, and proofs of their known ways."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from overlayccl_core import catalog, loader
from overlayccl_core.gates import equivalence
from overlayccl_core.gates.verdict import Verdict
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.library import Role
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import replay
from overlayccl_core.stages.known_ways import known_ways_of

PROBLEMS = loader.names("problems")
SMALL: Mapping[str, Mapping[str, Any]] = {
    name: catalog.plug_in(name).examples(4)["small"] for name in PROBLEMS
}

# Why a known way may say of itself that it has no meaning somewhere.
REASONS = (
    "one tier",
    "one rank on a node",
    "an odd number of ranks",
    "no call of this kind",
    "the activations are bfloat16 already",
    "all gradients fit one bucket",
    "too many ranks for something of each at each",
    "the ranks do not divide the heads",
    "exp of the logits is out of the range of floats, as far as the Case's `range` says",
)


def case(
    problem: str,
    entry: Mapping[str, Any] | None = None,
    *,
    ranks: int = 4,
    ranks_per_node: int = 0,
    **more: Any,
) -> Case:
    """A Case of a Problem; by default its small example, on 4 ranks and one tier."""
    fields = catalog.plug_in(problem).examples(ranks)["small"] if entry is None else entry
    return catalog.case(problem, fields, ranks=ranks, ranks_per_node=ranks_per_node or ranks, **more)


def programs(problem: Problem, *, derived: bool = True) -> dict[str, Program]:
    """The Program of every known way that has a meaning at a Problem, by name; the others say one of REASONS.

    derived: whether those that are made of other ways are among them.
    """
    found = {}
    for way in known_ways_of(problem):
        if way.role is Role.DERIVED and not derived:
            continue
        try:
            found[way.name] = replay(way.recipe, problem)
        except NotApplicable as reason:
            assert str(reason) in REASONS, (
                f"{way.name} of {problem.name}: a reason that no test knows: {reason}"
            )
    return found


def proof_of(problem: Problem, strategy: str) -> tuple[Program, Verdict]:
    """Replay one known way at a Problem and prove it, with the developer's own error as the bound of lossy ones."""
    recipe = next(s.recipe for s in known_ways_of(problem) if s.name == strategy)
    program = replay(recipe, problem)
    reference, bound = _held_to(problem.case, problem.direction)
    return program, equivalence.prove(program, reference, lossy_bound=bound)


@lru_cache(maxsize=16)
def _held_to(case: Case, direction: Direction) -> tuple[Program, float]:
    """What the known ways of a Problem of the catalog are proven equal to, and the developer's own error."""
    problem = next(p for p in catalog.directions(case) if p.direction is direction)
    reference = catalog.reference_program(problem)
    developer = next(s for s in known_ways_of(problem) if s.role is Role.DEVELOPER)
    return reference, equivalence.lossy_bound_of(replay(developer.recipe, problem), reference)
