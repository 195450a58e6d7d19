"""price_ablation: how much worse prices, order and choice get without parts of the cost model. Needs no ranks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.configuration.settings import FitSection, Settings
from overlayccl_core.costmodel.ablation import parts_of, without
from overlayccl_core.costmodel.features import Features, features
from overlayccl_core.costmodel.fidelity import Fidelity, Scored, fidelity
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.accuracy import PlaceAccuracy, at_place, over_places
from overlayccl_core.evidence.benched import Benched, benched, floor_of
from overlayccl_core.evidence.predictions import Prediction
from overlayccl_core.probes.asked.fit_quality import TimedProbe, theta_of, timed_of
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.price_ablations import PRICE_ABLATIONS
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the table price_ablations."""
    settings, probes = Settings.from_part(job.option("settings")), job.read(PROBES)
    rows = run(settings.fit, probes, job.read_all(SHORTLIST), job.read_all(BENCH), progress=job.say)
    job.write({PRICE_ABLATIONS: rows})


def run(
    section: FitSection,
    probes: pl.DataFrame,
    shortlist: pl.DataFrame,
    bench: pl.DataFrame,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `price_ablations`. shortlist, bench: of all Problems."""
    frames: dict[str | Path, pl.DataFrame] = {"probes": probes, "bench": bench}
    fingerprint = one_fingerprint(frames, f"{snakemake()} --forcerun probe bench")
    timed = list(timed_of(list(probes.iter_rows(named=True))).values())
    places = benched(shortlist, bench, floor_of(probes))
    counted = {
        one.program.digest: features(one.program) for here in places.values() for one in here if one.timed
    }
    rows = []
    for part in parts_of(column for one in timed for column in one.features):
        left = [replace(one, features=without(one.features, part)) for one in timed]
        theta = theta_of((one for one in left if one.role.fits_theta), section, bootstraps=2)
        assert theta is not None, "a run's sweep is enough for a fit"
        priced = {program: without(found, part) for program, found in counted.items()}
        for row in (_heldout(left, theta), _candidates(places, priced, theta)):
            if row is not None:
                rows.append({"without": part, **row, "fingerprint": fingerprint})
                progress(f"without {part}: {row['judged_on']} error {row['median_rel_error']:.1%}")
    return rows


def _heldout(timed: Iterable[TimedProbe], theta: Theta) -> Row | None:
    scored = [
        Scored(predicted_us=us, samples_us=one.samples_us)
        for one in timed
        if one.role is ProbeRole.HELD_OUT and (us := price_features(one.features, theta).us)
    ]
    return _figures("heldout", fidelity(scored), []) if scored else None


def _candidates(
    places: Mapping[Place, Sequence[Benched]], counted: Mapping[str, Features], theta: Theta
) -> Row | None:
    """Judge the candidates of all Cases; regret is of the choice that the model makes by these prices."""
    judged = list(_judged(places, counted, theta))
    regrets = [one.figures.top1_regret for one in judged if one.figures.top1_regret is not None]
    return _figures("candidates", over_places(judged), regrets) if judged else None


def _judged(
    places: Mapping[Place, Sequence[Benched]], counted: Mapping[str, Features], theta: Theta
) -> Iterator[PlaceAccuracy]:
    for place, shortlisted in places.items():
        predicted = {}
        for one in shortlisted:
            found = price_features(counted.get(one.program.digest, {}), theta)
            if found.us and found.low_us and found.high_us:
                key = (*place, one.program.digest)
                predicted[key] = Prediction(us=found.us, low_us=found.low_us, high_us=found.high_us)
        if accuracy := at_place(place, shortlisted, predicted):
            yield accuracy


def _figures(judged_on: str, figures: Fidelity, regrets: Sequence[float]) -> Row:
    names = ("n", "median_rel_error", "repeat_rel_error", "pair_accuracy", "pairs", "top1_regret")
    mean = float(np.mean(regrets)) if regrets else None
    return {"judged_on": judged_on, **{name: getattr(figures, name) for name in names}, "mean_regret": mean}
