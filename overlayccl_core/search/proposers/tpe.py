"""Optuna's tree-structured Parzen estimator over recipes: a hyperparameter sampler as it comes, for comparison.

A recipe is a point of a fixed space: its first strategy, then for each position a rule (or none) and a number
from 0 to 1 for the site and knob. The meaning of a position depends on the steps before it, unseen by the sampler.
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
DRAWS = 200  # the search ends after so many recipes in a row without a step


class Search(DrawnSearch):
    """A search by TPE."""

    steps: int = Field(
        ge=1, description="the longest recipe, in rule steps after the strategy that it begins with"
    )


@dataclass(slots=True)
class Tpe:
    """One recipe a round, without rules that do not apply.

    The sampler is told the price. It is infinite for a Program unable to run here, and for a recipe without steps,
    not proposed at all. A repeated recipe is proposed again, as a duplicate: it is one more trial of the sampler.
    """

    search: Search
    study: "optuna.Study"
    _bases: list[Candidate] = field(default_factory=list)
    _asked: "tuple[optuna.Trial, int] | None" = None  # and the number of its attempt

    def propose(self, standing: Standing) -> Sequence[Rewrite] | None:
        """Return the next recipe; None at the end."""
        self._bases = self._bases or [c for c in standing.archive.candidates if may_begin(c, standing)]
        if self._asked is not None:
            trial, number = self._asked
            candidate = standing.candidate_of(standing.attempts[number])
            self.study.tell(trial, candidate.us if candidate and candidate.feasible else inf)
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
        for position in range(self.search.steps):
            rule = trial.suggest_categorical(f"rule_{position}", rules)
            there = [] if rule == NO_RULE else list(steps_at(program, (rule,)))
            if there:
                share = trial.suggest_float(f"where_{position}", 0, 1)
                step = there[min(int(share * len(there)), len(there) - 1)]
                try:
                    program = apply(program, step)
                except DoesNotApply:
                    continue
                steps.append(step)
        return tuple(steps)


def proposer(search: Search) -> Tpe:
    """Return a new proposer for a Case and direction. ValueError: Optuna is not installed."""
    try:
        import optuna  # only its own searches wait for this import
    except ModuleNotFoundError:
        raise ValueError(
            f"search {search.name}: proposer tpe needs optuna, which this Python does not have: `make env` "
            "installs it, and so does pip install 'overlayccl[tpe]'; or leave this search out"
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return Tpe(search, optuna.create_study(sampler=optuna.samplers.TPESampler(seed=search.seed)))
