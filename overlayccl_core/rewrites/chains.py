"""Chains: how one Program becomes another, link by link, each link of one factor.

A chain from the developer's Program to a recipe's splits their difference into factors: a part of the links, in the
chain's order, gives the developer's Program with these factors alone. A link is a step of a rule. Two others take
the place of what no rule does: the known way at the recipe's beginning as a whole, if no chain to it is found, and
the order of calls that its strategy wrote.

`chain` searches one from the developer's Program, by all rules but those of schedules, until the values are those
of the recipe at its beginning or after one of its steps. The recipe's other steps follow.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.program import Boundary, Program
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import Step, apply, rule_names, steps_at
from overlayccl_core.rewrites.classes import class_of, site_classes
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.rewrites.rule import DoesNotApply, Factor

PROGRAMS = 600  # that a search for a chain makes at most: some seconds
AWAY = 4.0  # steps that Programs count as apart that have nothing in common
GIVEN = (("split", "joints"), ("ring", "handed_on"))  # knobs that no search tries; people do or undo them
Replayed = Callable[[Recipe, Problem], Program]
"""Replays a recipe at a Problem, as `recipe.replay` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One change of a Program.

    Attributes:
        step: Of a rule; None: the Program of `recipe` takes the place, of the same values if `order`.
        order: Only the order of calls changes.
    """

    factor: Factor
    step: Step | None = None
    recipe: Recipe | None = None
    order: bool = False

    @classmethod
    def of_step(cls, step: Step) -> "ChainLink":
        """Return the link of a step, of its rule's factor."""
        return cls(factor=rules_.rule(step[0]).FACTOR, step=step)

    @property
    def words(self) -> str:
        """Words as `merge all at all_reduce:world:1`."""
        if self.step is not None:
            name, site, knob = self.step
            return f"{name.replace('_', ' ')} {knob}".rstrip() + f" at {site}"
        assert self.recipe is not None
        if self.order:
            return f"the order of calls of {self.recipe.words}"
        return f"{self.recipe.words} as a whole (no chain was found)"

    def applied(self, program: Program, replayed: Replayed) -> Program:
        """Return the changed Program.

        Raises:
            DoesNotApply: The link changes nothing here.
        """
        if self.step is not None:
            return apply(program, self.step)
        assert self.recipe is not None
        try:
            other = replayed(self.recipe, program.problem)
        except (NotApplicable, Rejected, ValueError) as error:
            raise DoesNotApply(f"{self.words}: {error}") from error
        if self.order and other.value_digest != program.value_digest:
            raise DoesNotApply(f"{self.words}: other values are exchanged here")
        if other.digest == program.digest:
            raise DoesNotApply(f"{self.words}: nothing would change")
        return other


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained:
    """A Program after a part of a chain. left_out: why a link of that part did nothing, in words."""

    program: Program
    links: tuple[ChainLink, ...] = ()
    left_out: tuple[str, ...] = ()


def chained(program: Program, links: Iterable[ChainLink], replayed: Replayed) -> Chained:
    """Apply links in their order; leave out those that do not apply, with the reason."""
    made = Chained(program=program)
    for link in links:
        try:
            changed = link.applied(made.program, replayed)
        except DoesNotApply as error:
            made = replace(made, left_out=(*made.left_out, str(error)))
        else:
            made = replace(made, program=changed, links=(*made.links, link))
    return made


def chain(
    developer: Program, recipe: Recipe, replayed: Replayed, *, programs: int = PROGRAMS
) -> tuple[ChainLink, ...]:
    """Return the links from the developer's Program to a recipe's; () if it is the developer's.

    Raises:
        ValueError: The recipe cannot be replayed here (also NotApplicable and Rejected, of its beginning).
    """
    problem = developer.problem
    numbers = range(len(recipe.steps), -1, -1)  # the end first
    begun = {number: replace(recipe, steps=recipe.steps[:number]) for number in numbers}
    goals = {number: replayed(one, problem) for number, one in begun.items()}
    found = steps_between(developer, list(goals.values()), programs=programs)
    if found is None:
        number = 0
        links = [ChainLink(factor=Factor.PRIMITIVE, recipe=begun[0])]
    else:
        number = next(n for n, goal in goals.items() if goal is found[1])
        links = [ChainLink.of_step(step) for step in found[0]]
    links += map(ChainLink.of_step, recipe.steps[number:])
    here, there = chained(developer, links, replayed), goals[len(recipe.steps)]
    if here.program.value_digest == there.value_digest and here.program.digest != there.digest:
        links.append(ChainLink(factor=_of_order(here.program, there), recipe=recipe, order=True))
    return tuple(links)


def _of_order(mine: Program, other: Program) -> Factor:
    """The factor of another order of the same values: boundary if only cuts between graphs differ."""
    events = [[event for event in one.events if not isinstance(event, Boundary)] for one in (mine, other)]
    return Factor.BOUNDARY if events[0] == events[1] else Factor.SCHEDULE


def steps_between(
    program: Program, goals: Sequence[Program], *, programs: int = PROGRAMS
) -> tuple[tuple[Step, ...], Program] | None:
    """Return few steps to a Program with the values of one of the goals, and which; None if none is found.

    Programs whose collectives are more like a goal's are looked at first. Rules that only order calls are left out.
    """
    wanted = {goal.value_digest: goal for goal in reversed(goals)}
    if program.value_digest in wanted:
        return (), wanted[program.value_digest]
    looks = [_looks(goal) for goal in goals]
    seen = {program.value_digest}
    waiting: list[tuple[float, int, Program, tuple[Step, ...]]] = [(0.0, 0, program, ())]
    while waiting:
        *_, one, steps = heappop(waiting)
        for step in _steps(one):
            try:
                new = apply(one, step)
            except DoesNotApply:
                continue
            if new.value_digest in wanted:
                return (*steps, step), wanted[new.value_digest]
            if new.value_digest not in seen:
                if len(seen) == programs:
                    return None
                seen.add(new.value_digest)
                far = len(steps) + 1 + AWAY * min(_unlike(_looks(new), goal) for goal in looks)
                heappush(waiting, (far, len(seen), new, (*steps, step)))
    return None


def _steps(program: Program) -> Iterator[Step]:
    """Steps of all rules but those of schedules, with some knobs that no search tries."""
    names = [name for name in rule_names() if rules_.rule(name).FACTOR is not Factor.SCHEDULE]
    yield from steps_at(program, names)
    for name, knob in GIVEN:
        for site in site_classes(program, rules_.rule(name).KINDS):
            yield name, site, knob


def _looks(program: Program) -> tuple[Counter[object], ...]:
    """Count kinds and groups, payloads, and labels of the calls: how a Program looks from afar."""
    case, found = program.problem.case, program.collectives
    return (
        Counter(class_of(case, x).rpartition(":")[0] for x in found),
        Counter(x.size for x in found),
        Counter((x.label.graph, x.label.call) for x in found),
    )


def _unlike(mine: Sequence[Counter[object]], other: Sequence[Counter[object]]) -> float:
    """Return how much two Programs differ in these counts, from 0 (all common) to 1."""
    both = sum(one.total() for one in (*mine, *other))
    common = sum((a & b).total() for a, b in zip(mine, other, strict=True))
    return 1 - 2 * common / both if both else 0.0
