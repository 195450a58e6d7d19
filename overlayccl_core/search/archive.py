"""The archive: the cheapest Program of every family, each expanded once, until nothing new comes.

Families are kept apart because the cost model may be wrong about a whole one, and because a useful form is often
reached through a dearer one. Labels come first: boundaries are dropped at once and only what is in one graph is
expanded; the winner is priced under all labels at the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from overlayccl_core.program.program import Boundary, Issue, Program
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search import offline
from overlayccl_core.search.candidate import Candidate, Sketch, SketchOutcome, Source, Stage
from overlayccl_core.search.family import has_graphs
from overlayccl_core.search.judge import Judge
from overlayccl_core.searches import Search

Clock = Callable[[], float]


class Stop(StrEnum):
    """Why a search ended; all but the first mean that a guard cut it."""

    NO_NEW_ELITE = "no new elite"
    ROUNDS = "rounds"
    PROGRAMS = "programs"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Where a search begins: a Program that is known to be right, or to be right once it is proven."""

    program: Program
    recipe: Recipe
    source: Source


@dataclass(slots=True, kw_only=True)
class Archive:
    """All Programs that were priced, in the order in which they came, and the cheapest of every family.

    Programs of people are told apart by their digests; what a rule makes is new if its value_digest is.
    known: the first that was priced, by value_digest; None: it can never run.
    """

    judge: Judge
    stage: Stage = Stage.FULL
    candidates: list[Candidate] = field(default_factory=list)
    elites: dict[str, Candidate] = field(default_factory=dict)
    sketches: list[Sketch] = field(default_factory=list)
    stop: Stop = Stop.NO_NEW_ELITE
    rounds: int = 0
    known: dict[str, Candidate | None] = field(default_factory=dict)
    _digests: set[str] = field(default_factory=set)

    def enter_base(self, base: Base) -> Candidate | None:
        """A Program of people; None if it is there already or can never run."""
        if base.program.digest in self._digests:
            self._note(None, base.source, None, SketchOutcome.DUPLICATE, base.program, "the same Program")
            return None
        return self._judged(base.program, base.recipe, base.source, None, None)

    def try_step(self, parent: Candidate, step: Step, *, reorders: bool = False) -> Candidate | None:
        """What a step makes of a candidate, new or known; None if it comes to nothing.

        reorders: the step is worth nothing unless calls come in another order.
        """
        try:
            program = apply(parent.program, step)
        except DoesNotApply as error:
            self._note(parent, Source.RULE, step, SketchOutcome.DOES_NOT_APPLY, None, str(error))
            return None
        if program.value_digest in self.known:
            self._note(parent, Source.RULE, step, SketchOutcome.DUPLICATE, program, "known")
            return self.known[program.value_digest]
        if reorders and _calls(program) == _calls(parent.program):
            self._note(
                parent,
                Source.RULE,
                step,
                SketchOutcome.DUPLICATE,
                program,
                "the same calls in the same order",
            )
            return None
        return self._judged(program, parent.child_recipe(step), Source.RULE, parent, step)

    def cheapest(self) -> list[Candidate]:
        """The elites, cheapest first."""
        return sorted(self.elites.values(), key=lambda c: c.order)

    def _judged(
        self, program: Program, recipe: Recipe, source: Source, parent: Candidate | None, step: Step | None
    ) -> Candidate | None:
        self._digests.add(program.digest)
        self.known.setdefault(program.value_digest, None)
        above = None if parent is None else parent.program.value_digest
        found = self.judge.candidate(program, recipe, source, above)
        if not isinstance(found, Candidate):
            self._note(parent, source, step, SketchOutcome.ILLEGAL, program, found.message)
            return None
        outcome = SketchOutcome.PROGRAM if found.feasible else SketchOutcome.INFEASIBLE
        self._note(parent, source, step, outcome, program, found.legal.message)
        self.candidates.append(found)
        self.known[program.value_digest] = self.known[program.value_digest] or found
        best = self.elites.get(found.family)
        if best is None or found.order < best.order:
            self.elites[found.family] = found
        return found

    def _note(
        self,
        parent: Candidate | None,
        source: Source,
        step: Step | None,
        outcome: SketchOutcome,
        program: Program | None,
        message: str,
    ) -> None:
        self.sketches.append(
            Sketch(
                parent=None if parent is None else parent.program.value_digest,
                source=source,
                step=step,
                rationale="listed for this Problem" if step is None else offline.rationale(step),
                outcome=outcome,
                value_digest=None if program is None else program.value_digest,
                message=message,
                stage=self.stage,
            )
        )


def explore(archive: Archive, bases: Iterable[Base], search: Search, clock: Clock, *, lossy: bool) -> None:
    """Fill an archive from some Programs on; it then says why it stopped.

    clock: seconds since the search began; it decides nothing unless it reaches `search.seconds`. lossy: whether
    Programs in fewer bits are looked for.
    """
    enter(archive, bases)
    rules = offline.structural_rules(lossy=lossy)
    expanded: set[str] = set()
    while True:
        fresh = [c for c in archive.cheapest() if c.program.value_digest not in expanded]
        fresh = [c for c in fresh if not has_graphs(c.program) and (lossy or not c.lossy)]
        if not fresh or archive.rounds == search.rounds:
            archive.stop = Stop.ROUNDS if fresh else Stop.NO_NEW_ELITE
            return
        archive.rounds += 1
        for candidate in fresh[: search.elites_a_round]:
            expanded.add(candidate.program.value_digest)
            for step in offline.proposals(candidate.program, rules):
                archive.try_step(candidate, step)
                if len(archive.candidates) >= search.programs:
                    archive.stop = Stop.PROGRAMS
                    return
                if clock() > search.seconds:
                    archive.stop = Stop.SECONDS
                    return


def enter(archive: Archive, bases: Iterable[Base]) -> None:
    """Put Programs of people in, each also with all of its collectives in one graph."""
    for base in bases:
        candidate = archive.enter_base(base)
        if candidate is not None and has_graphs(candidate.program):
            for step in offline.without_boundaries(candidate.program):
                candidate = archive.try_step(candidate, step) or candidate


def try_labels(archive: Archive, winner: Candidate) -> None:
    """The winner under all other labels: classes issued early, and the boundaries of its base kept."""
    found = [winner]
    for step in offline.early_issues(winner.program):
        found += [new for c in found if (new := archive.try_step(c, step, reorders=True))]
    steps = [step for step in winner.recipe.steps if step[0] != offline.DROP_BOUNDARY]
    if len(steps) < len(winner.recipe.steps):
        start = Recipe(base=winner.recipe.base)
        kept = next((c for c in archive.candidates if c.recipe == start), None)
        for step in steps:
            kept = kept and archive.try_step(kept, step)


def _calls(program: Program) -> list[object]:
    """The events as they run: labels aside."""
    return [
        (e.node.kind, e.node.size, e.node.dtype)
        if isinstance(e, Issue)
        else type(e)
        if isinstance(e, Boundary)
        else e.port
        for e in program.events
    ]
