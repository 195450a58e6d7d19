"""The archive: every priced Program, and the cheapest of every family.

Families are kept apart because the cost model may be wrong about a whole one, and because useful forms are often
reached through dearer ones. Labels are no part of the structure. A Program with boundaries is at once tried
without them; the result and each elite are also tried in other orders of issue. Orders that give equal events are
twins, and the first is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from overlayccl_core.costmodel.features import features
from overlayccl_core.program.kinds import NotApplicable, Rejected
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.sandbox.tracing import trace_confined
from overlayccl_core.search.candidate import Candidate, Origin, Stage
from overlayccl_core.search.judge import Judge, Prover
from overlayccl_core.search.labels import has_graphs, has_labels, other_orders, without_boundaries
from overlayccl_core.search.proposal import Attempt, Proposal, ProposalOutcome, Rewrite, Sketch, bad_form
from overlayccl_core.search.rules import rationale

LISTED = "listed for this Problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The start of a search: a Program known to be right, or to be right once proven."""

    program: Program
    recipe: Recipe
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """The thing being tried: its source, its parts and its reason."""

    origin: Origin
    rationale: str
    parent: Candidate | None = None
    steps: tuple[Step, ...] = ()
    sketch: Sketch | None = None


@dataclass(slots=True, kw_only=True)
class Archive:
    """All priced Programs, in the order of arrival, and the cheapest of every family.

    Programs of people differ by their digests; a rule's or sketch's Program is new if its value_digest is.

    Attributes:
        known: By value_digest, the first priced Program; None if it can never run, or is not right.
    """

    judge: Judge
    prover: Prover
    stage: Stage = Stage.FULL
    candidates: list[Candidate] = field(default_factory=list)
    elites: dict[str, Candidate] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    known: dict[str, Candidate | None] = field(default_factory=dict)
    _digests: set[str] = field(default_factory=set)
    _ids: set[int] = field(default_factory=set)  # of `candidates`
    _runs: set[str] = field(default_factory=set)  # run_digests
    _reordered: set[int] = field(default_factory=set)

    def enter(self, bases: Iterable[Base]) -> None:
        """Add Programs of people, then try each under other labels."""
        entered = [self._entered(base) for base in bases]
        for candidate in entered:
            if candidate is not None:
                self._try_other_labels(candidate)

    def _entered(self, base: Base) -> Candidate | None:
        tried = _Try(origin=base.origin, rationale=LISTED)
        if base.program.digest in self._digests:
            self._note(tried, ProposalOutcome.DUPLICATE, "the same Program", base.program)
            return None
        return self._judged(base.program, base.recipe, tried)

    def take(self, proposal: Proposal) -> Candidate | None:
        """Try a proposal; return its candidate, new or known, or None.

        Malformed proposals are rejected, and so are steps at candidates from elsewhere.
        """
        if wrong := bad_form(proposal) or self._from_elsewhere(proposal):
            origin = Origin.RULE if isinstance(proposal, Rewrite) else Origin.SKETCH
            unread = _Try(origin=origin, rationale="")  # only its arrival can be kept
            return self._note(unread, ProposalOutcome.REJECTED, wrong)
        if isinstance(proposal, Sketch):
            return self.try_sketch(proposal)
        return self.try_step(proposal.at, *proposal.steps, why=proposal.rationale)

    def _from_elsewhere(self, proposal: Proposal) -> str:
        if isinstance(proposal, Sketch) or id(proposal.at) in self._ids:
            return ""
        return "`at` must be a candidate of this search: take one of the elites"

    def try_sketch(self, sketch: Sketch) -> Candidate | None:
        """Trace, price and prove a sketch; return its candidate, new or known.

        Sketches are untrusted, so they are proven before rules look at them. New ones are also tried under other
        labels.

        Returns:
            The candidate; None if the sketch does not trace, can never run, or is not proven.
        """
        tried = _Try(origin=Origin.SKETCH, rationale=sketch.rationale, sketch=sketch)
        try:
            problem = self.prover.reference.problem
            program = replay(sketch.recipe, problem, lambda _: sketch.source, trace_confined)
        except NotApplicable as error:
            return self._note(tried, ProposalOutcome.DOES_NOT_APPLY, str(error))
        except Rejected as error:
            return self._note(tried, ProposalOutcome.REJECTED, str(error))
        if program.value_digest in self.known:
            return self._note(tried, ProposalOutcome.DUPLICATE, "known", program)
        candidate = self._judged(program, sketch.recipe, tried)
        if candidate is not None:
            self._try_other_labels(candidate)
        return candidate

    def try_step(
        self, parent: Candidate, *steps: Step, why: str = "", reorder: bool = False
    ) -> Candidate | None:
        """Apply steps to a candidate; return the result, new or known, or None.

        Args:
            why: Empty: the last step's rule describes it.
            reorder: The steps change the order of calls alone: None if its events are known, or neither cost
                nor overlap tells it from its parent.
        """
        tried = _Try(origin=Origin.RULE, rationale=why, parent=parent, steps=steps)
        try:
            described = [rationale(step) for step in steps]
        except ValueError as error:  # there is no such rule
            return self._note(tried, ProposalOutcome.REJECTED, str(error))
        tried = replace(tried, rationale=why or described[-1])
        try:
            program = reduce(apply, steps, parent.program)
        except DoesNotApply as error:
            return self._note(tried, ProposalOutcome.DOES_NOT_APPLY, str(error))
        if program.value_digest in self.known:
            return self._note(tried, ProposalOutcome.DUPLICATE, "known", program)
        if reorder and (program.run_digest in self._runs or not _is_of_use(program, parent.program)):
            return self._note(tried, ProposalOutcome.DUPLICATE, "no other order of calls", program)
        recipe = replace(parent.recipe, steps=(*parent.recipe.steps, *steps))
        return self._judged(program, recipe, tried)

    def _try_other_labels(self, candidate: Candidate) -> None:
        """Try the same with all its collectives in one graph, and in other orders."""
        plain: Candidate | None = candidate
        if has_graphs(candidate.program):
            plain = self.try_step(candidate, *without_boundaries(candidate.program))
        if plain is not None:
            self.try_reordered(plain)

    def try_elites_reordered(self, most: int | None = None) -> None:
        """Try the elites (or the `most` cheapest) in other orders of issue, if their collectives can overlap."""
        for candidate in list(self.elites.values()) if most is None else self.cheapest()[:most]:
            self.try_reordered(candidate)

    def try_reordered(self, candidate: Candidate) -> None:
        """Try the same, once, in each other order of issue, all its collectives alike."""
        if id(candidate) in self._reordered:
            return
        self._reordered.add(id(candidate))
        if not has_labels(candidate.program):
            for steps in other_orders(candidate.program):
                self.try_step(candidate, *steps, reorder=True)

    def of_recipe(self, recipe: Recipe) -> Candidate | None:
        """Return the candidate of exactly this recipe; None if there is none."""
        return next((c for c in self.candidates if c.recipe == recipe), None)

    def cheapest(self) -> list[Candidate]:
        """Return the elites, cheapest first."""
        return sorted(self.elites.values(), key=lambda c: c.order)

    def _judged(self, program: Program, recipe: Recipe, tried: _Try) -> Candidate | None:
        """Return the candidate of a Program not yet priced; None if it can never run, or is not right."""
        self._digests.add(program.digest)
        self._runs.add(program.run_digest)
        self.known.setdefault(program.value_digest, None)
        above = None if tried.parent is None else tried.parent.program.value_digest
        candidate = self.judge.candidate(program, recipe, tried.origin, above)
        if not isinstance(candidate, Candidate):
            return self._note(tried, ProposalOutcome.ILLEGAL, candidate.message, program)
        if tried.sketch is not None:
            proof = self.prover.verdict_on(program)
            if not proof.passed:
                return self._note(tried, ProposalOutcome.NOT_PROVEN, proof.message, program)
            if candidate.feasible:
                self.prover.know(program, proof)
        outcome = ProposalOutcome.PROGRAM if candidate.feasible else ProposalOutcome.INFEASIBLE
        self._note(tried, outcome, candidate.legal.message, program)
        self.candidates.append(candidate)
        self._ids.add(id(candidate))
        self.known[program.value_digest] = self.known[program.value_digest] or candidate
        best = self.elites.get(candidate.family)
        if best is None or candidate.order < best.order:
            self.elites[candidate.family] = candidate
        return candidate

    def _note(
        self, tried: _Try, outcome: ProposalOutcome, message: str, program: Program | None = None
    ) -> Candidate | None:
        """Add an attempt; return the known candidate of a duplicate, else None."""
        digest = None if program is None else program.value_digest
        self.attempts.append(
            Attempt(
                parent=None if tried.parent is None else tried.parent.program.value_digest,
                origin=tried.origin,
                steps=tried.steps,
                sketch=tried.sketch,
                rationale=tried.rationale,
                outcome=outcome,
                value_digest=digest,
                message=message,
                stage=self.stage,
            )
        )
        return self.known.get(digest) if digest and outcome is ProposalOutcome.DUPLICATE else None


def _is_of_use(program: Program, parent: Program) -> bool:
    """Whether another order costs another price, or overlaps with computing, which prices ignore."""
    return overlaps(program) or features(program) != features(parent)
