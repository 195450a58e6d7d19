"""Recipes: what a candidate is, independent of size. A recipe replays at any Case."""

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
"""Source, function, Problem -> Program; as `trace_source` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeOf:
    """The backward Program of a forward recipe, without collectives of equal copies."""

    recipe: "Recipe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """base: a known way's name, `source:<sha256>:<function>` or a TransposeOf. steps: what `apply` takes."""

    base: str | TransposeOf
    steps: tuple[Step, ...] = ()

    @property
    def of_source(self) -> bool:
        """Whether it begins at a source that is no library's."""
        return self.first.startswith(SOURCE)

    @property
    def first(self) -> str:
        """The known way's name, or the source, that it begins at, whatever was transposed since."""
        return self.base.recipe.first if isinstance(self.base, TransposeOf) else self.base

    @property
    def words(self) -> str:
        """`send_receive, early issue`: where it begins, then each rule once with its knob."""
        if isinstance(self.base, TransposeOf):
            begin = f"transpose of {self.base.recipe.words}"
        else:
            begin = f"sketch {self.base.rpartition(':')[2]}" if self.of_source else self.base
        rules = (f"{rule.replace('_', ' ')} {knob}".rstrip() for rule, _, knob in self.steps)
        return ", ".join([begin, *dict.fromkeys(rules)])

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads back."""
        if isinstance(self.base, str):
            base: Any = self.base
        else:
            base = {"transpose_of": self.base.recipe.to_json()}
        return {"base": base, "steps": [list(s) for s in self.steps]}

    @classmethod
    def from_json(cls, data: Any) -> "Recipe":
        """The Recipe that `to_json` wrote; ValueError naming what is wrong."""
        match data:
            case {"base": str() as base, "steps": list() as steps}:
                return cls(base=base, steps=_steps(steps))
            case {"base": {"transpose_of": recipe, **more}, "steps": list() as steps} if not more:
                return cls(base=TransposeOf(recipe=cls.from_json(recipe)), steps=_steps(steps))
            case _:
                raise ValueError(f"a recipe has a base and steps (got {json.dumps(data)[:200]})")

    def dumps(self) -> str:
        """One line of JSON; equal recipes give equal text."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)


def source_base(source: str, function: str) -> str:
    """The base of a strategy that is no known way."""
    return f"{SOURCE}{_sha256(source)}:{function}"


def sources(texts: Iterable[str]) -> SourceOf:
    """What finds each of some sources by its digest; ValueError where it is none of them."""
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
    """The Program of a recipe at a Problem, forward or backward.

    At a backward, a name means the library of the Problem that the backward equals, or its own (of one that is
    not linear); a source is written for the backward itself. source_of: finds the source of a base that names
    one, which `trace` then traces: a stranger's wants a confined process. Raises Rejected or NotApplicable as
    tracing does, DoesNotApply for a step that does nothing here, ValueError for a recipe that cannot be replayed
    here.
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
    """The Program that the steps begin with."""
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
