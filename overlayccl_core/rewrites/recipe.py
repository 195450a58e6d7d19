"""Recipes: candidates, independent of size. A recipe replays at any Case."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.rename import ports_in_order, renamed
from overlayccl_core.program.simplify import simplify
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.transpose import transpose
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply

SOURCE = "source:"

SourceOf = Callable[[str], str]
"""sha256 of a source -> the source."""

Trace = Callable[[str, str, Problem], Program]
"""Source, function, Problem -> Program, as in `trace_source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeOf:
    """The backward Program of a forward recipe, without collectives of equal copies."""

    recipe: "Recipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A base and the steps from there."""

    base: str | TransposeOf  # a known way's name, `source:<sha256>:<function>`, or a TransposeOf
    steps: tuple[Step, ...] = ()  # steps for `apply`

    @property
    def of_source(self) -> bool:
        """Whether the recipe begins at a source outside the libraries."""
        return self.first.startswith(SOURCE)

    @property
    def first(self) -> str:
        """The known way's name, or the source, at the beginning, before any transpose."""
        return self.base.recipe.first if isinstance(self.base, TransposeOf) else self.base

    @property
    def words(self) -> str:
        """Words as `send_receive, early issue`: the beginning, then each rule once with its knob."""
        if isinstance(self.base, TransposeOf):
            begin = f"transpose of {self.base.recipe.words}"
        else:
            begin = f"sketch {self.base.rpartition(':')[2]}" if self.of_source else self.base
        rules = (f"{rule.replace('_', ' ')} {knob}".rstrip() for rule, _, knob in self.steps)
        return ", ".join([begin, *dict.fromkeys(rules)])

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        if isinstance(self.base, str):
            base: Any = self.base
        else:
            base = {"transpose_of": self.base.recipe.to_json()}
        return {"base": base, "steps": [list(s) for s in self.steps]}

    @classmethod
    def from_json(cls, data: Any) -> "Recipe":
        """Return the Recipe from the data of `to_json`.

        Raises:
            ValueError: The data is no recipe; the message names the fault.
        """
        match data:
            case {"base": str() as base, "steps": list() as steps}:
                return cls(base=base, steps=_steps(steps))
            case {"base": {"transpose_of": recipe, **more}, "steps": list() as steps} if not more:
                return cls(base=TransposeOf(recipe=cls.from_json(recipe)), steps=_steps(steps))
            case _:
                raise ValueError(f"a recipe has a base and steps (got {json.dumps(data)[:200]})")

    def dumps(self) -> str:
        """Return one line of JSON; equal recipes give equal text."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)


def source_base(source: str, function: str) -> str:
    """Return the base of a strategy other than the known ways."""
    return f"{SOURCE}{_sha256(source)}:{function}"


def sources(texts: Iterable[str]) -> SourceOf:
    """Return a function that finds each of the texts by its digest; it raises ValueError for any other digest."""
    known = {_sha256(text): text for text in texts}

    def source_of(digest: str) -> str:
        if digest not in known:
            raise ValueError(
                f"the source {digest} is none of the {len(known)} at hand: give the one it is of"
            )
        return known[digest]

    return source_of


def replay(
    recipe: Recipe, problem: Problem, source_of: SourceOf | None = None, trace: Trace = trace_source
) -> Program:
    """Return the Program of a recipe at a Problem, forward or backward.

    At a linear backward, a name means the library of the Problem that the backward equals; at another backward, its
    own library. A source is written for the backward itself.

    Args:
        source_of: Finds the source of a base `source:...`.
        trace: Traces such a source; for a stranger's, choose a confined process.

    Raises:
        Rejected, NotApplicable: Tracing fails.
        DoesNotApply: A step does nothing here.
        ValueError: The recipe cannot be replayed here.
    """
    program = _base(recipe, problem, source_of, trace)
    for number, step in enumerate(recipe.steps, 1):
        try:
            program = apply(program, step)
        except DoesNotApply as error:
            raise DoesNotApply(
                f"step {number} of {len(recipe.steps)} at {problem.case.id}: {error}"
            ) from error
    return program


def _base(recipe: Recipe, problem: Problem, source_of: SourceOf | None, trace: Trace) -> Program:
    """The Program before the first step."""
    if isinstance(recipe.base, TransposeOf):
        return _transposed(recipe.base, problem, source_of, trace)
    if recipe.base.startswith(SOURCE):
        return _of_source(recipe.base, problem, source_of, trace)
    if problem.direction is Direction.BACKWARD and problem.linear:
        return _from_equal_problem(recipe, problem)
    return trace_source(catalog.library_source(problem.case.problem), recipe.base, problem)


def _of_source(base: str, problem: Problem, source_of: SourceOf | None, trace: Trace) -> Program:
    digest, _, function = base.removeprefix(SOURCE).partition(":")
    if source_of is None:
        raise ValueError(f"the recipe needs the source {digest}: say where it is")
    source = source_of(digest)
    if source_base(source, function) != base:
        raise ValueError(f"the source found for {digest} has other content: restore the one that was proven")
    return trace(source, function, problem)


def _transposed(base: TransposeOf, problem: Problem, source_of: SourceOf | None, trace: Trace) -> Program:
    if problem.direction is not Direction.BACKWARD:
        raise ValueError(
            f"a transpose solves a backward (got {problem.name}): replay it at the backward Problem"
        )
    forward = replay(base.recipe, catalog.build(problem.case), source_of, trace)
    return simplify(transpose(forward, problem))


def _from_equal_problem(recipe: Recipe, problem: Problem) -> Program:
    equal = catalog.plug_in(problem.case.problem).equals_backward(problem.case)
    if equal is None:
        raise ValueError(
            f"{problem.name} equals no Problem with a library: use the transpose of a forward recipe"
        )
    forward = catalog.build(equal)
    return renamed(replay(Recipe(base=recipe.base), forward), problem, ports_in_order(forward, problem))


def _steps(data: list[Any]) -> tuple[Step, ...]:
    for step in data:
        if not isinstance(step, list) or len(step) != 3 or not all(isinstance(part, str) for part in step):
            raise ValueError(f"a step of a recipe is rule, class and knob (got {step!r})")
    return tuple((rule, site, knob) for rule, site, knob in data)


def _sha256(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()
