"""Optuna's tree-structured Parzen estimator over recipes: a sampler of hyperparameters as it comes, for comparison.

A recipe is written as a point of a fixed space: which strategy it begins with, then for each of its places a rule
(or none) and where among that rule's sites and knobs, from 0 to 1. What a place means depends on the steps before
it, which the sampler does not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from pydantic import Field

from overlayccl_core.rewrites.apply import DoesNotApply, Step, apply, steps_at
from overlayccl_core.search.candidate import Candidate
from overlayccl_core.search.drawn import DrawnSearch, may_begin
from overlayccl_core.search.proposal import Rewrite
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.rules import structural_rules

if TYPE_CHECKING:
    import optuna

REQUIRES = ("optuna",)
NO_RULE = "none"
DRAWS = 200  # in a row of recipes without a step, after which it ends


class Search(DrawnSearch):
    """A search by TPE."""

    steps: int = Field(
        ge=1, description="the longest recipe, in rule steps after the strategy that it begins with"
    )


@dataclass(slots=True)
class Tpe:
    """One recipe a round, of those whose steps apply: a rule that does nothing there is left out.

    The sampler is told the price; infinite where that cannot run here, or where no step is left and nothing is
    proposed. A recipe that comes again is proposed again: a duplicate, as it is one more trial of the sampler.
    """

    search: Search
    study: "optuna.Study"
    _bases: list[Candidate] = field(default_factory=list)
    _asked: "tuple[optuna.Trial, int] | None" = None  # and the number of its attempt

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """The next recipe; None if it ends."""
        self._bases = self._bases or [c for c in standing.archive.candidates if may_begin(c, standing)]
        if self._asked is not None:
            trial, number = self._asked
            self.study.tell(trial, _us(standing.candidate_of(standing.attempts[number])))
            self._asked = None
        if not self._bases or standing.evaluations >= self.search.evaluations:
            return None
        for _ in range(DRAWS):
            trial = self.study.ask()
            at = self._bases[trial.suggest_categorical("base", range(len(self._bases)))]
            if steps := self._steps(at, trial, standing):
                self._asked = trial, len(standing.attempts)
                return [Rewrite(at=at, steps=steps)]
            self.study.tell(trial, inf)
        return None

    def _steps(self, at: Candidate, trial: "optuna.Trial", standing: Standing) -> tuple[Step, ...]:
        rules = (NO_RULE, *structural_rules(lossy=standing.lossy))
        program, steps = at.program, []
        for place in range(self.search.steps):
            rule = trial.suggest_categorical(f"rule_{place}", rules)
            there = [] if rule == NO_RULE else list(steps_at(program, (rule,)))
            if there:
                share = trial.suggest_float(f"where_{place}", 0, 1)
                step = there[min(int(share * len(there)), len(there) - 1)]
                try:
                    program = apply(program, step)
                except DoesNotApply:
                    continue
                steps.append(step)
        return tuple(steps)


def _us(candidate: Candidate | None) -> float:
    if candidate is None or not candidate.feasible or candidate.price.us is None:
        return inf
    return candidate.price.us


def proposer(search: Search) -> Tpe:
    """A new one for each Case and direction. ValueError where Optuna is not installed."""
    try:
        import optuna  # only who searches with it waits for it
    except ModuleNotFoundError:
        raise ValueError(
            f"search {search.name}: proposer tpe needs optuna, which this Python does not have: `make env` "
            "installs it, and so does pip install 'overlayccl[tpe]'; or leave this search out"
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return Tpe(search, optuna.create_study(sampler=optuna.samplers.TPESampler(seed=search.seed)))
