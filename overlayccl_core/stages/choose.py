"""choose: what is deployed at each Case and direction: the first finalist that passes every gate.

In order: finalist_1, finalist_2, hand_bundled, single_graph, and the developer's own way, which nothing can stop.
An arm was trained with its candidates at all sites of a model together, so it passes or fails as a whole. Where no
model has a Case, the bench decides, and the verdict says that training is not applicable. Needs no ranks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.evidence.benched import Benched, benched, floor_of, model_choice, regret
from overlayccl_core.evidence.deployment_files import Printer, module_and_record
from overlayccl_core.evidence.predictions import Place, at, predictions
from overlayccl_core.evidence.trained import Outcomes, Ran, arms_by_model, failed_arms, outcomes
from overlayccl_core.evidence.verdict_rows import before_choice, row
from overlayccl_core.gates.choice import Choice, Contender, choose
from overlayccl_core.gates.training import ArmEvidence
from overlayccl_core.gates.verdict import Gate, Outcome, Reason, Verdict
from overlayccl_core.measuring.arms import ORDER_OF_CHOICE, ArmName, at_case
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program
from overlayccl_core.tables.fingerprints import one_fingerprint

Row = dict[str, Any]
TrainedIn = Mapping[str, Mapping[str, Sequence[str]]]  # Case -> direction -> models


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What a choice is made from. candidates: of all searches; steps, stamps: of all models with the Problem."""

    seeds: pl.DataFrame
    prices: pl.DataFrame
    candidates: pl.DataFrame
    shortlist: pl.DataFrame
    bench: pl.DataFrame
    finalists: pl.DataFrame
    probes: pl.DataFrame
    steps: pl.DataFrame
    stamps: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Rows of the tables verdicts and choice; the source of the deployed module and what stands beside it."""

    verdicts: list[Row]
    choice: list[Row]
    module: str
    record: dict[str, Any]


def run(
    problem: str,
    library: str,
    tables: Tables,
    trained: TrainedIn,
    *,
    printer: Printer,
    progress: Callable[[str], None],
) -> Chosen:
    """trained: models as `nano m8`. library: of the deployment, as its ranks call it.

    printer: of the backend that was measured.
    """
    frames: dict[str | Path, pl.DataFrame] = {
        "bench": tables.bench,
        "probes": tables.probes,
        "steps": tables.steps,
    }
    fingerprint = one_fingerprint(frames, "snakemake --profile local --forcerun probe bench train")
    trial = _Trial(tables, trained)
    verdicts, choices = before_choice(tables.seeds, tables.candidates, tables.shortlist), []
    for place, shortlisted in benched(tables.shortlist, tables.bench, floor_of(tables.probes)).items():
        verdicts += [row(place, one.candidate, one.verdict) for one in shortlisted]
        contenders, trained_verdicts = trial.contenders(place, {one.candidate: one for one in shortlisted})
        decided = choose(contenders)
        verdicts += trained_verdicts
        verdicts += [
            row(place, one.candidate, verdict, arm=one.arm)
            for one, verdict in zip(contenders, decided.verdicts, strict=True)
        ]
        choices.append(trial.choice_row(place, decided, shortlisted))
        progress(f"{' '.join(place)}: {decided.chosen.candidate}: {decided.reason}")
    _add_pairs(choices)
    module, record = module_and_record(
        problem, library, fingerprint or "", printer, tables.seeds, tables.shortlist, choices, verdicts
    )
    return Chosen(verdicts=verdicts, choice=choices, module=module, record=record)


class _Trial:
    """Finalists of all Cases and what training says of their arms, each arm of a model judged once."""

    def __init__(self, tables: Tables, trained: TrainedIn) -> None:
        self.trained = trained
        self.shortlist = tables.shortlist
        self.stamps = tables.stamps
        self.predicted = predictions(tables.prices, tables.candidates)
        self.arms: dict[str, dict[str, ArmEvidence]] = arms_by_model(tables.steps)
        self.finalists: dict[Place, dict[str, Row]] = {}
        for listed in tables.finalists.iter_rows(named=True):
            self.finalists.setdefault((listed["case"], listed["direction"]), {})[listed["arm"]] = listed
        self.failed = failed_arms(tables.steps)
        self.judged: dict[tuple[str, str], Outcomes] = {}
        self.programs: dict[str, Program] = {}

    def contenders(
        self, place: Place, shortlisted: Mapping[str, Benched]
    ) -> tuple[list[Contender], list[Row]]:
        """(contenders in the order of choice, rows of their training verdicts)."""
        contenders, rows = [], []
        here = self.finalists.get(place, {})
        for arm in ORDER_OF_CHOICE:
            finalist = here.get(arm)
            if finalist is None:
                continue
            candidate = finalist["candidate"]
            training = tuple((m, self.outcomes(m, arm).verdicts) for m in self.models(place))
            if arm != ArmName.DEVELOPER:
                rows += [row(place, candidate, v, arm=arm, model=m) for m, vs in training for v in vs]
                rows += [] if training else [row(place, candidate, _no_model(place), arm=arm)]
            one = shortlisted[candidate]
            contenders.append(
                Contender(
                    arm=arm, candidate=candidate, bench=one.verdict, training=training, speedup=one.speedup
                )
            )
        return contenders, rows

    def models(self, place: Place) -> Sequence[str]:
        """The models that train a Case in a direction."""
        return self.trained.get(place[0], {}).get(place[1], ())

    def outcomes(self, model: str, arm: str) -> Outcomes:
        """What training says of an arm in a model, judged once."""
        if (model, arm) not in self.judged:
            failed = self.failed.get((model, arm))
            self.judged[model, arm] = (
                Outcomes(verdicts=(failed,))
                if failed
                else outcomes(model, arm, self.arms.get(model, {}), self.stamps, self.ran)
            )
        return self.judged[model, arm]

    def ran(self, arm: str) -> Iterable[Ran]:
        """The Programs of an arm at all Cases and directions."""
        for (case, direction), here in self.finalists.items():
            if (finalist := at_case(here, arm)) is not None:
                program, numerics = self.program(finalist), NumericsClass(finalist["numerics"])
                yield Ran(case=case, direction=direction, program=program, numerics=numerics)

    def program(self, finalist: Row) -> Program:
        """The Program of a finalist, read once."""
        if finalist["program"] not in self.programs:
            self.programs[finalist["program"]] = loads(finalist["program_json"])
        return self.programs[finalist["program"]]

    def choice_row(self, place: Place, decided: Choice, shortlisted: Sequence[Benched]) -> Row:
        """The row of `choice`, without the price of the pair."""
        chosen = decided.chosen
        listed = at(self.shortlist, place).filter(pl.col("candidate") == chosen.candidate).row(0, named=True)
        one = next(b for b in shortlisted if b.candidate == chosen.candidate)
        price, first = (
            self.predicted.get((*place, listed["program"])),
            model_choice(place, shortlisted, self.predicted),
        )
        models = self.models(place)
        trained = {model: self.outcomes(model, chosen.arm) for model in models}
        least = min((o for o in trained.values() if o.speedup), key=_speed, default=Outcomes(verdicts=()))
        return {
            "case": place[0],
            "direction": place[1],
            "candidate": chosen.candidate,
            "arm": chosen.arm,
            **{name: listed[name] for name in ("recipe", "numerics", "program", "value_digest")},
            "trained_in": ", ".join(models) or None,
            "predicted_us": price.us if price else None,
            "measured_us": one.us if one.timed else None,
            **ratio_columns("speedup", one.speedup),
            **ratio_columns("step_speedup", least.speedup),
            **ratio_columns("step_gain", least.gain),
            "best_other": least.best_other,
            "regret": regret(one, shortlisted),
            "model_regret": regret(first, shortlisted) if first else None,
            "reason": decided.reason + "".join(_faster(*one) for one in trained.items()),
            "fingerprint": one.timed.fingerprint if one.timed else None,
        }


def ratio_columns(name: str, ratio: Any) -> Row:
    """The three columns of a ratio; null without one."""
    values = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _faster(model: str, trained: Outcomes) -> str:
    """A clause where arms of the framework's own beat what is deployed beyond noise: no module can be them."""
    if not trained.faster_frameworks:
        return ""
    arms = ", ".join(
        f"{ratio.value:.2f} ({ratio.low:.2f}..{ratio.high:.2f}) times as fast as {arm}"
        for arm, ratio in trained.faster_frameworks
    )
    return (
        f"; in {model} the framework is faster beyond noise, and no module can deploy its arms: "
        f"this one is {arms}"
    )


def _speed(trained: Outcomes) -> float:
    return trained.speedup.value if trained.speedup else 0.0


def _add_pairs(choices: Sequence[Row]) -> None:
    """predicted_pair_us: a direction that is not listed exchanges nothing and costs nothing."""
    for mine in choices:
        of_case = [other["predicted_us"] for other in choices if other["case"] == mine["case"]]
        mine["predicted_pair_us"] = None if None in of_case else sum(of_case)


def _no_model(place: Place) -> Verdict:
    return Verdict(
        gate=Gate.TRAINING,
        outcome=Outcome.NOT_APPLICABLE,
        reason=Reason.NOT_APPLICABLE,
        message=f"no configured model has {' '.join(place)}: the bench decides",
    )
