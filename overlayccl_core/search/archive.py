"""The archive: the cheapest Program of every family, each expanded once, until nothing new comes.

Families are kept apart because the cost model may be wrong about a whole one, and because a useful form is often
reached through a dearer one. Labels are no part of the structure: boundaries are dropped at once, only Programs
without labels are expanded, each is priced also with its collectives in flight together, and the winner under all
labels at the end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from overlayccl_core.configuration.searches import Search
from overlayccl_core.costmodel.features import features
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply
from overlayccl_core.rewrites.recipe import Recipe
from overlayccl_core.search import offline
from overlayccl_core.search.candidate import Candidate, Sketch, SketchOutcome, Source, Stage
from overlayccl_core.search.family import has_graphs, has_labels, may_overlap
from overlayccl_core.search.judge import Judge

Clock = Callable[[], float]

MOST_CLASSES = 4  # whose subsets are tried at the end: their number doubles with each


class Stop(StrEnum):
    """Why a search ended; all but the first mean that a guard cut it."""

    NO_NEW_ELITE = "no_new_elite"
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

    def enter(self, bases: Iterable[Base]) -> None:
        """Programs of people, then each with all of its collectives in one graph, and in flight together."""
        entered = [self._entered(base) for base in bases]
        for candidate in (c for c in entered if c is not None):
            if has_graphs(candidate.program):
                self.try_step(candidate, *offline.without_boundaries(candidate.program))
            else:
                self.try_early(candidate)

    def _entered(self, base: Base) -> Candidate | None:
        if base.program.digest in self._digests:
            self._note(None, base.source, (), SketchOutcome.DUPLICATE, base.program, "the same Program")
            return None
        return self._judged(base.program, base.recipe, base.source, None, ())

    def try_step(self, parent: Candidate, *steps: Step) -> Candidate | None:
        """What steps make of a candidate, new or known; None if they come to nothing.

        What is new is also tried with its collectives in flight together, where any could be.
        """
        found = self._stepped(parent, steps)
        if found is not None and found.recipe == parent.child_recipe(*steps):
            self.try_early(found)
        return found

    def try_early(self, candidate: Candidate) -> None:
        """The same with all collectives of a depth in flight before one is waited for."""
        if not has_labels(candidate.program) and may_overlap(candidate.program):
            self.try_labels(candidate, offline.early_issues(candidate.program))

    def try_labels(self, parent: Candidate, steps: Sequence[Step]) -> Candidate | None:
        """Steps that change the order of calls only; None if the cost model sees no difference."""
        return self._stepped(parent, steps, reorder=True)

    def _stepped(
        self, parent: Candidate, steps: Sequence[Step], *, reorder: bool = False
    ) -> Candidate | None:
        program = parent.program
        try:
            for step in steps:
                program = apply(program, step)
        except DoesNotApply as error:
            self._note(parent, Source.RULE, steps, SketchOutcome.DOES_NOT_APPLY, None, str(error))
            return None
        if program.value_digest in self.known:
            self._note(parent, Source.RULE, steps, SketchOutcome.DUPLICATE, program, "known")
            return self.known[program.value_digest]
        if reorder and features(program) == features(parent.program):
            self._note(
                parent, Source.RULE, steps, SketchOutcome.DUPLICATE, program, "no other order of calls"
            )
            return None
        return self._judged(program, parent.child_recipe(*steps), Source.RULE, parent, steps)

    def of_recipe(self, recipe: Recipe) -> Candidate | None:
        """The candidate of exactly this recipe; None if there is none."""
        return next((c for c in self.candidates if c.recipe == recipe), None)

    def cheapest(self) -> list[Candidate]:
        """The elites, cheapest first."""
        return sorted(self.elites.values(), key=lambda c: c.order)

    def _judged(
        self,
        program: Program,
        recipe: Recipe,
        source: Source,
        parent: Candidate | None,
        steps: Sequence[Step],
    ) -> Candidate | None:
        self._digests.add(program.digest)
        self.known.setdefault(program.value_digest, None)
        above = None if parent is None else parent.program.value_digest
        found = self.judge.candidate(program, recipe, source, above)
        if not isinstance(found, Candidate):
            self._note(parent, source, steps, SketchOutcome.ILLEGAL, program, found.message)
            return None
        outcome = SketchOutcome.PROGRAM if found.feasible else SketchOutcome.INFEASIBLE
        self._note(parent, source, steps, outcome, program, found.legal.message)
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
        steps: Sequence[Step],
        outcome: SketchOutcome,
        program: Program | None,
        message: str,
    ) -> None:
        self.sketches.append(
            Sketch(
                parent=None if parent is None else parent.program.value_digest,
                source=source,
                steps=tuple(steps),
                rationale=offline.rationale(steps[-1]) if steps else "listed for this Problem",
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
    archive.enter(bases)
    rules = offline.structural_rules(lossy=lossy)
    expanded: set[str] = set()
    while True:
        fresh = [c for c in archive.cheapest() if c.program.digest not in expanded]
        fresh = [c for c in fresh if not has_labels(c.program) and (lossy or not c.lossy)]
        if not fresh or archive.rounds == search.rounds:
            archive.stop = Stop.ROUNDS if fresh else Stop.NO_NEW_ELITE
            return
        archive.rounds += 1
        for candidate in fresh[: search.elites_a_round]:
            if archive.elites[candidate.family] is not candidate:
                continue  # a cheaper one came in this round
            expanded.add(candidate.program.digest)
            for step in offline.proposals(candidate.program, rules):
                archive.try_step(candidate, step)
                if len(archive.candidates) >= search.programs:
                    archive.stop = Stop.PROGRAMS
                    return
                if clock() > search.seconds:
                    archive.stop = Stop.SECONDS
                    return


def try_all_labels(archive: Archive, winner: Candidate) -> None:
    """A Program under all other labels: any classes in flight together, and the boundaries of its base kept."""
    written = [step for step in winner.recipe.steps if step[0] != offline.EARLY_ISSUE]
    base = archive.of_recipe(Recipe(base=winner.recipe.base))
    plain = archive.of_recipe(replace(winner.recipe, steps=tuple(written)))
    found = [plain or winner]
    for step in offline.early_issues(found[0].program)[:MOST_CLASSES]:
        found += [new for c in found if (new := archive.try_labels(c, [step]))]
    in_graphs = [step for step in written if step[0] != offline.DROP_BOUNDARY]
    if base is not None and in_graphs and len(in_graphs) < len(written):
        archive.try_step(base, *in_graphs)
