"""weigh_tuners: tuners on recorded samples, and the best way of each call as a folder. Needs no ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.costmodel.price import price
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.report.tuners import page, sentence
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.theta import THETA
from overlayccl_core.tables.tune import TIMED_WAYS, TUNED_CALLS, TUNER_CURVES
from overlayccl_core.tuning.lookup import lookup
from overlayccl_core.tuning.open_ways import Space, arms_of, cases_to_tune, space_of_rows
from overlayccl_core.tuning.recorded import both_launches
from overlayccl_core.tuning.replay import CallVerdict, curves, judged
from overlayccl_core.tuning.space import OpenWay

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables tuner_curves and tuned_calls, the page, and the folder of the best ways."""
    deployment, timed = load(job.option("deployment")), job.read(TIMED_WAYS)
    cases = cases_to_tune(Settings.from_part(job.option("settings")), deployment)
    space = space_of_rows(cases, timed)
    found = run(space, timed, theta_of(job.read(THETA), job.read(FIDELITY)), deployment, progress=job.say)
    job.write({TUNER_CURVES: found.curves, TUNED_CALLS: found.calls})
    for name, text in found.files.items():
        (path,) = (path for path in job.all_outputs if path.name == name)
        job.write_text(path, text)
    curved, calls = (
        pl.DataFrame(rows, schema=table.schema)
        for table, rows in ((TUNER_CURVES, found.curves), (TUNED_CALLS, found.calls))
    )
    print(sentence(calls), flush=True)  # onto the screen, as the end of a run
    (path,) = job.outputs["page"]
    job.write_text(path, page(curved, calls, job.option("name")))


@dataclass(frozen=True, kw_only=True)
class WeighedTuners:
    """The rows of `tuner_curves` and `tuned_calls`, and name -> text of the folder of the best ways."""

    curves: list[Row]
    calls: list[Row]
    files: dict[str, str]


def run(
    space: Space,
    timed: pl.DataFrame,
    theta: Theta,
    deployment: Deployment,
    *,
    progress: Callable[[str], None],
) -> WeighedTuners:
    """Return what was found. timed: table `timed_ways`, of all ways of the space."""
    fingerprint = one_fingerprint({"timed_ways": timed}, f"{snakemake()} --forcerun time_ways") or ""
    curved: list[Row] = []
    calls: list[Row] = []
    verdicts = {}
    for case, ways in space.items():
        progress(f"{case.id}: tuners on the samples of {len(ways)} ways")
        recorded, again = both_launches(arms_of(ways), timed.filter(case=case.id).iter_rows(named=True))
        prices = [price(way.program, theta).us for way in ways]
        known = [us for us in prices if us is not None]
        cheapest = prices.index(min(known)) if len(known) == len(prices) else None
        head = {"case": case.id, "fingerprint": fingerprint}
        curved += [{**head, **row} for row in curves(recorded, cheapest)]
        verdicts[case] = verdict = judged(recorded, again)
        calls.append({**head, **_row(verdict, ways, cheapest)})
    return WeighedTuners(curves=curved, calls=calls, files=lookup(space, verdicts, deployment, fingerprint))


def _row(verdict: CallVerdict, ways: Sequence[OpenWay], cheapest: int | None) -> Row:
    call, again = verdict.call, verdict.again
    names = [arm.way for arm in call.arms]
    fastest = int(call.us.argmin())
    row: Row = {
        "ways": len(ways),
        "families": len({way.family for way in ways}),
        "rounds": call.samples_us.shape[1],
        "again_rounds": again.samples_us.shape[1],
        "plain_us": float(call.us[0]),
        "fastest_us": float(call.us[fastest]),
        "fastest": names[fastest],
        "cheapest": None if cheapest is None else names[cheapest],
        "found": again.arms[verdict.found].way,
        "chosen": again.arms[verdict.chosen].way,
        "disturbed": verdict.disturbed,
        "regret": float(call.regrets[verdict.best]),
    }
    ratios = {
        "gain": verdict.gain,
        "both_gain": verdict.both,
        "family_gain": verdict.family,
        "parts_gain": verdict.parts,
        "interaction": verdict.interaction,
    }
    for name, ratio in ratios.items():
        row |= {name: ratio.value, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
    return row
