"""price_ablation: how much worse prices, order and choice get without parts of the cost model. Needs no ranks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.configuration.sections import FitSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.costmodel.ablation import parts_of, without
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.fidelity import Fidelity, Scored, fidelity
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.evidence.accuracy import judged_row, of_candidates
from overlayccl_core.evidence.benched import benched, floor_of
from overlayccl_core.probes.asked.fit_quality import TimedProbe, theta_of, timed_of
from overlayccl_core.probes.probe import ProbeRole
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

    def candidates(part: str, theta: Theta) -> Row | None:
        of = of_candidates(places, lambda program: without(counted[program.digest], part), theta)
        return None if of is None else _figures("candidates", of.figures, of.regrets)

    rows = []
    for part in parts_of(column for one in timed for column in one.features):
        left = [replace(one, features=without(one.features, part)) for one in timed]
        theta = theta_of((one for one in left if one.role.fits_theta), section, bootstraps=2)
        assert theta is not None, "a run's sweep is enough for a fit"
        for row in (_heldout(left, theta), candidates(part, theta)):
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


def _figures(judged_on: str, figures: Fidelity, regrets: Sequence[float]) -> Row:
    return {"judged_on": judged_on, **judged_row(figures, regrets)}
