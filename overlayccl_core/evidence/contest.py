"""A contest at each Case and direction: from the tables to the contenders of the choice gate, and back to rows.

An arm was trained with its candidates at all sites of a model together. So it passes or fails as a whole, and is
chosen at all sites: nothing untrained is deployed. Models that share a Case are decided together, by the same
ladder for any of their Problems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from overlayccl_core.evidence.benched import Benched, benched, floor_of
from overlayccl_core.evidence.predictions import place_of, rows_at
from overlayccl_core.evidence.trained import arms_by_model, failed_arms, judged, ran_by, trained_as_others
from overlayccl_core.evidence.verdict_rows import row
from overlayccl_core.gates.choice import Contender, choose
from overlayccl_core.gates.verdict import Reason, Verdict
from overlayccl_core.measuring.arms import ArmName, arms_of, at_case, only_problem
from overlayccl_core.measuring.outcomes import Gate, Outcome
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.problem import Place

Row = dict[str, Any]
TrainedIn = Mapping[str, Mapping[str, Sequence[str]]]  # Case -> direction -> models


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceTables:
    """Inputs of a choice.

    known_ways and candidates (of all searches) are the Problem's; shortlist, bench and finalists also those of
    Problems chosen together with it; steps and stamps are of all models with any of them.
    """

    known_ways: pl.DataFrame
    candidates: pl.DataFrame
    shortlist: pl.DataFrame
    bench: pl.DataFrame
    finalists: pl.DataFrame
    probes: pl.DataFrame
    steps: pl.DataFrame
    stamps: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The choice at a Case and direction: rows of `verdicts` and `choice`, the chosen row of `finalists`, why."""

    verdicts: list[Row]
    choice: Row
    finalist: Row
    reason: str


class Contest:
    """Finalists of all Cases with their bench and training results, each arm of a model judged once."""

    def __init__(self, tables: ChoiceTables, trained: TrainedIn) -> None:
        self.trained = trained
        self.shortlist = tables.shortlist
        self.benched = benched(tables.shortlist, tables.bench, floor_of(tables.probes))
        self.stamps = tables.stamps
        self.arms = arms_by_model(tables.steps, tables.stamps)
        self.finalists: dict[Place, dict[str, Row]] = {}
        for listed in tables.finalists.iter_rows(named=True):
            if (place := place_of(listed)) in self.benched:  # else nothing is exchanged there
                self.finalists.setdefault(place, {})[listed["arm"]] = listed
        self.failed = failed_arms(tables.steps, tables.stamps)
        self.ran_as = {(model, arm): ran_as for model, arm, ran_as in trained_as_others(tables.stamps)}
        self.judged: dict[tuple[str, str], tuple[Verdict, ...]] = {}
        self.ran = ran_by(self.finalists)

    def decided(self, place: Place) -> Decided:
        """Choose among the arms of a place."""
        by_name = {one.candidate: one for one in self.benched[place]}
        verdicts = [row(place, one.candidate, one.verdict) for one in self.benched[place]]
        contenders, trained = self.contenders(place)
        choice = choose(contenders, partial(self.speed, place, by_name))
        chosen = choice.chosen
        finalist = self.finalist(place, chosen.arm)
        assert finalist is not None  # it contended
        listed = (
            rows_at(self.shortlist, place).filter(pl.col("candidate") == chosen.candidate).row(0, named=True)
        )
        timed = by_name[chosen.candidate].timed
        judged = zip(contenders, choice.verdicts, strict=True)
        return Decided(
            verdicts=[
                *verdicts,
                *trained,
                *(row(place, one.candidate, verdict, arm=one.arm) for one, verdict in judged),
            ],
            choice={
                "case": place[0],
                "direction": place[1],
                "candidate": chosen.candidate,
                "arm": chosen.arm,
                **{name: listed[name] for name in ("recipe", "numerics", "program", "value_digest")},
                "trained_in": ", ".join(self.models(place)) or None,
                "fingerprint": timed.fingerprint if timed else None,
            },
            finalist=finalist,
            reason=choice.reason,
        )

    def contenders(self, place: Place) -> tuple[list[Contender], list[Row]]:
        """Return (contenders from the plainest on, rows of their training verdicts)."""
        contenders, rows = [], []
        together = self.together(place)
        deciding = self.deciding(place)
        for arm in arms_of({problem_of(case) for case, _ in together}):
            finalist = self.finalist(place, arm)
            if finalist is None or not self.is_of(arm, together):
                continue
            candidate = finalist["candidate"]
            training = tuple((m, self.verdicts(m, arm)) for m in deciding)
            if arm != ArmName.DEVELOPER:
                rows += [row(place, candidate, v, arm=arm, model=m) for m, vs in training for v in vs]
                rows += [] if training else [row(place, candidate, _no_model(place), arm=arm)]
            contenders.append(
                Contender(
                    arm=arm,
                    candidate=candidate,
                    timed_as=(candidate, *(self.ran_as.get((m, arm), arm) for m in deciding)),
                    bench=self.bench(arm, together),
                    training=training,
                    left_behind=any(self.is_behind(model, arm) for model in deciding),
                )
            )
        return contenders, rows

    def finalist(self, place: Place, arm: str) -> Row | None:
        """Return the row of an arm at a place."""
        return at_case(self.finalists.get(place, {}), arm, problem_of(place[0]))

    def is_of(self, arm: str, together: Sequence[Place]) -> bool:
        """Return whether it is an arm of its own: a second finalist that no place has is the first."""
        own = any(arm in self.finalists.get(place, {}) for place in together)
        return own or only_problem(arm) is not None

    def bench(self, arm: str, together: Sequence[Place]) -> Verdict:
        """Return an arm's bench verdict: the first failed one of its places, else the first place's."""
        said = [
            (place, one.verdict)
            for place in together
            for one in self.benched[place]
            if (finalist := self.finalist(place, arm)) is not None and one.candidate == finalist["candidate"]
        ]
        place, verdict = next((one for one in said if not one[1].passed), said[0])
        if place == together[0]:
            return verdict
        return replace(verdict, message=f"{' '.join(place)}: {verdict.message}")

    def speed(
        self, place: Place, shortlisted: Mapping[str, Benched], one: Contender, other: Contender
    ) -> dict[str, Ratio | None]:
        """Return one's speed-up over the other in every deciding model; in the bench if no model has the Case."""
        models = self.deciding(place)
        if not models:
            mine, theirs = shortlisted[one.candidate].timed, shortlisted[other.candidate].timed
            return {"the bench": mine.speedup_over(theirs) if mine and theirs else None}
        ratios = {}
        for model in models:
            arms = self.arms.get(model, {})
            known = one.arm in arms and other.arm in arms
            ratios[model] = arms[one.arm].speedup_over(arms[other.arm]) if known else None
        return ratios

    def is_behind(self, model: str, arm: str) -> bool:
        """Return whether the last launches of a model went on without an arm (`training/left_behind.py`)."""
        arms = self.arms.get(model, {})
        last = max((launch for one in arms.values() for launch in one.steps_us), default=0)
        return arm in arms and last not in arms[arm].steps_us

    def models(self, place: Place) -> Sequence[str]:
        """Return the models that train a Case in a direction."""
        return self.trained.get(place[0], {}).get(place[1], ())

    def deciding(self, place: Place) -> Sequence[str]:
        """Return the models of the place and of all places decided with it: all are deployed as one arm."""
        return sorted({model for where in self.together(place) for model in self.models(where)})

    def together(self, place: Place) -> Sequence[Place]:
        """Return the Cases and directions that steps train together with it, also by way of others."""
        found = [place]
        for one in found:  # grows
            mine = set(self.models(one))
            found += [p for p in self.finalists if p not in found and not mine.isdisjoint(self.models(p))]
        return found

    def verdicts(self, model: str, arm: str) -> tuple[Verdict, ...]:
        """Return the training verdicts of an arm in a model, judged once."""
        if (model, arm) not in self.judged:
            failed = self.failed.get((model, arm))
            arms = self.arms.get(model, {})
            self.judged[model, arm] = (failed,) if failed else judged(model, arm, arms, self.stamps, self.ran)
        return self.judged[model, arm]


def _no_model(place: Place) -> Verdict:
    message = f"no configured model has {' '.join(place)}: the bench decides"
    return Verdict.of(Gate.TRAINING, Outcome.NOT_APPLICABLE, Reason.NOT_APPLICABLE, message)
