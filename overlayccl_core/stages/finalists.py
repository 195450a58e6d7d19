"""finalists: the best measured of each Case and direction, the baselines, and how right the prices were.

Candidates that pass the bench gate are ranked by measured time; within noise the estimate decides, too. The bench
answers every read at once, so overlap with the model's computing gains nothing there: if a model trains the Case,
the Program with overlap whose step has the lowest price is a finalist however slow it was, and so is the second if
its price is near. Without such prices it is the fastest with overlap, if the first two have none.

Lossy candidates come last, and are no finalists unless a model trains the Case: only losses can decide about them.
Needs no ranks.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.costmodel.fidelity import Fidelity
from overlayccl_core.costmodel.targets import judged as prices_judged
from overlayccl_core.evidence.accuracy import PlaceAccuracy, at_place, over_places
from overlayccl_core.evidence.benched import Benched, benched, floor_of, ranked
from overlayccl_core.evidence.predictions import place_of, predictions, rows_at
from overlayccl_core.evidence.step_prices import CandidatePrices, StepPricer, steps_of
from overlayccl_core.measuring.arms import BASELINES, ArmName
from overlayccl_core.program.case import problem_of
from overlayccl_core.program.library import Role
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.finalists import FINALISTS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.tables.step_prices import STEP_PRICES
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]
StepsUs = Mapping[str, Mapping[tuple[str, int], float | None]]
"""candidate -> (model, microbatches) -> price of the step"""
OVERLAPPING = (ArmName.FINALIST_OVERLAP, ArmName.FINALIST_OVERLAP_2)
NEAR = 1.05  # prices of steps that do not tell which is faster
_COPIED = ("recipe", "numerics", "program", "program_json")


def main(job: RuleJob) -> None:
    """Write the tables finalists and fidelity of one Problem."""
    tables = run(
        job.read(KNOWN_WAYS, job.problem),
        job.read(SHORTLIST),
        job.read(BENCH),
        job.read(PRICES),
        job.read_all(CANDIDATES),
        job.read(PROBES),
        json.loads(job.option("trained_by")),
        _in_steps(job),
        progress=job.say,
    )
    job.write(
        {
            FINALISTS: tables["finalists"],
            FIDELITY: tables["fidelity"],
            STEP_PRICES: tables["step_prices"],
        }
    )


def _in_steps(job: RuleJob) -> CandidatePrices:
    pricer = StepPricer(job.read_all(SEGMENTS), job.read(THETA), job.read(BESIDE))
    return CandidatePrices(pricer, steps_of(job.option("steps")), job.read_all(KNOWN_WAYS))


def run(
    ways: pl.DataFrame,
    shortlist: pl.DataFrame,
    bench: pl.DataFrame,
    prices: pl.DataFrame,
    candidates: pl.DataFrame,
    probes: pl.DataFrame,
    trained: Mapping[str, Collection[str]],
    in_steps: CandidatePrices | None = None,
    *,
    progress: Callable[[str], None],
) -> dict[str, list[Row]]:
    """Return the rows of `finalists`, of the Problem's `fidelity` and of `step_prices`.

    An arm has a row if it has a Program. If nothing passes the bench gate, there is no finalist. If nothing is
    exchanged, nothing is shortlisted, and the developer's Program is all there is. `fidelity` has a row if a
    Program was both priced and measured. trained: Case -> the directions that models train.
    """
    frames: dict[str | Path, pl.DataFrame] = {"prices": prices, "bench": bench, "probes": probes}
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun probe bench")
    predicted = predictions(prices, candidates)
    rows: list[Row] = []
    in_step: list[Row] = []
    found: dict[Place, PlaceAccuracy] = {}
    for place, shortlisted in benched(shortlist, bench, floor_of(probes)).items():
        in_a_step = place[1] in trained.get(place[0], ())
        best = ranked(shortlisted, lossy=in_a_step)
        steps_us = {one.candidate: in_steps.us(place, one.program) for one in shortlisted} if in_steps else {}
        arms = _arms(shortlisted, best, steps_us, in_a_step=in_a_step)
        for one in shortlisted:
            price = predicted.get((*place, one.program.digest))
            for (model, microbatches), us in steps_us.get(one.candidate, {}).items():
                in_step.append(
                    {
                        **dict(zip(("case", "direction"), place, strict=True)),
                        "candidate": one.candidate,
                        "model": model,
                        "microbatches": microbatches,
                        "overlaps": overlaps(one.program),
                        "predicted_us": None if price is None else price.us,
                        "step_us": us,
                        "fingerprint": fingerprint,
                    }
                )
        listed = {row["candidate"]: row for row in rows_at(shortlist, place).iter_rows(named=True)}
        for arm, one in arms:
            rows.append(_row(place, arm, one, listed[one.candidate]))
        progress(f"{' '.join(place)}: {', '.join(_sentences(shortlisted, best))}")
        if accuracy := at_place(place, shortlisted, predicted):
            found[place] = accuracy
            progress(f"{' '.join(place)}: {_fidelity_text(accuracy.figures)}")
        else:
            progress(f"{' '.join(place)}: nothing was both priced and measured")
    rows += _silent(ways, {place_of(row) for row in rows})
    return {
        "finalists": rows,
        "fidelity": _accuracy_rows(found, fingerprint, progress),
        "step_prices": in_step,
    }


def _accuracy_rows(
    found: Mapping[Place, PlaceAccuracy], fingerprint: str | None, progress: Callable[[str], None]
) -> list[Row]:
    """Return the rows of `fidelity`: all Cases together, then each Case and direction."""
    if not found:
        return []
    problem = problem_of(next(iter(found))[0])
    whole = over_places(list(found.values())).to_row()
    progress(f"{problem}: prices {prices_judged(whole)}")
    rows = [{"case": None, "direction": None, **whole}]
    rows += [{"case": case, "direction": way, **one.figures.to_row()} for (case, way), one in found.items()]
    return [{"problem": problem, **row, "fingerprint": fingerprint} for row in rows]


def _arms(
    shortlisted: Iterable[Benched], best: Sequence[Benched], steps_us: StepsUs, *, in_a_step: bool
) -> list[tuple[ArmName, Benched]]:
    """Return (arm, candidate): at most one of each arm."""
    arms = [(arm, one) for arm in BASELINES for one in shortlisted if arm in one.why and not one.failed]
    arms += [(ArmName.BEST_KNOWN_WAY, one) for one in best if one.known and not one.lossy][:1]
    arms += zip((ArmName.FINALIST_1, ArmName.FINALIST_2), best, strict=False)
    if in_a_step:
        overlapping = _near_the_cheapest_in_steps(best, steps_us)
        arms += zip(OVERLAPPING, [one for one in overlapping if one not in best[:2]], strict=False)
    return arms


def _near_the_cheapest_in_steps(best: Sequence[Benched], steps_us: StepsUs) -> list[Benched]:
    """Return the Programs with overlap whose steps have the lowest prices: the cheapest, and any near it.

    Without prices: the fastest one with overlap.
    """
    overlapping = [one for one in best if overlaps(one.program)]
    us: dict[str, float] = {}
    for one in overlapping:
        prices = [price for price in steps_us.get(one.candidate, {}).values() if price is not None]
        if prices:
            us[one.candidate] = sum(prices)
    if not us:
        return overlapping[:1]
    priced = sorted((one for one in overlapping if one.candidate in us), key=lambda one: us[one.candidate])
    return [one for one in priced if us[one.candidate] <= NEAR * us[priced[0].candidate]]


def _silent(ways: pl.DataFrame, listed: Collection[Place]) -> Iterator[Row]:
    """Yield the developer's row of every other Case and direction."""
    for row in ways.filter(pl.col("role") == Role.DEVELOPER).iter_rows(named=True):
        if place_of(row) not in listed:
            head = {name: row[name] for name in ("case", "direction", *_COPIED)}
            yield head | {"arm": ArmName.DEVELOPER, "candidate": row["strategy"], "fingerprint": None}


def _row(place: Place, arm: str, one: Benched, listed: Row) -> Row:
    return {
        "case": place[0],
        "direction": place[1],
        "arm": arm,
        "candidate": one.candidate,
        **{name: listed[name] for name in _COPIED},
        "fingerprint": one.timed.fingerprint if one.timed else None,
    }


def _sentences(shortlisted: Sequence[Benched], best: Sequence[Benched]) -> Iterator[str]:
    if not best:
        yield "nothing passes the bench gate, so there is no finalist"
        return
    yield "finalists " + " and ".join(one.candidate for one in best[:2])
    for one in shortlisted:
        if not one.verdict.passed:
            yield f"{one.candidate}: {one.verdict.message}"
        elif one.lossy and one.us < best[0].us:
            yield f"{one.candidate} is {best[0].us / one.us:.2f} times as fast as these but lossy, so behind them"


def _fidelity_text(figures: Fidelity) -> str:
    noise = {True: ", within noise", False: "", None: ", too few rounds to tell"}[figures.top1_within_noise]
    said = (
        f"{figures.n} Programs, median error {figures.median_rel_error:.1%} (repeat "
        f"{figures.repeat_rel_error:.1%})"
    )
    if figures.top1_regret is None:
        return said
    return f"{said}, first choice {figures.top1_regret:.1%} above the best{noise}"
