"""fit: theta from structured, shape and mixed probes, judged on the held-out ones; calls beside computing.

Needs no ranks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.costmodel.beside import fit_beside
from overlayccl_core.costmodel.features import features
from overlayccl_core.costmodel.fidelity import Scored, fidelity
from overlayccl_core.costmodel.fit import Fit, FitSettings, Observation, fit
from overlayccl_core.costmodel.price import price_features
from overlayccl_core.costmodel.theta import FitStatus
from overlayccl_core.measuring.measurements import Measurement, measurements
from overlayccl_core.probes.probe import ProbeRole
from overlayccl_core.program.json_form import loads
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.probes import PROBES
from overlayccl_core.tables.remake import snakemake
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.theta import THETA

Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables theta, fidelity and beside."""
    tables = run(Settings.from_part(job.option("settings")), job.read(PROBES), progress=job.say)
    job.write({THETA: tables["theta"], FIDELITY: tables["fidelity"], BESIDE: tables["beside"]})


def run(settings: Settings, probes: pl.DataFrame, *, progress: Callable[[str], None]) -> dict[str, list[Row]]:
    """Return the rows of `theta`, of the deployment's `fidelity` (the held-out Programs) and of `beside`."""
    fingerprint = one_fingerprint({"probes": probes}, f"{snakemake()} --forcerun probe") or ""
    measured = measurements(probes.iter_rows(named=True))
    programs = _programs(probes, measured)
    fitted = [
        Observation(features=counts, time_us=timed.estimate.value, judges=role.judges)
        for role, counts, timed in programs
        if role.fits_theta
    ]
    fit_settings = FitSettings(
        ridge=settings.fit.ridge, bootstraps=settings.fit.bootstraps, seed=settings.fit.seed
    )
    result = fit(fitted, fit_settings, fingerprint=fingerprint)
    _tell(result, progress)
    heldout = [(counts, timed) for role, counts, timed in programs if role is ProbeRole.HELD_OUT]
    judged = _heldout_row(result, heldout, progress)
    return {
        "theta": result.theta.to_rows(),
        "fidelity": [{**judged, "fingerprint": fingerprint}],
        "beside": [{**row, "fingerprint": fingerprint} for row in _beside(probes, measured, progress)],
    }


def _programs(
    probes: pl.DataFrame, measured: dict[str, Measurement]
) -> list[tuple[ProbeRole, Any, Measurement]]:
    """Return (role, features, samples) of every Program, once."""
    once = probes.unique("program", keep="first", maintain_order=True)
    return [
        (ProbeRole(row["role"]), features(loads(row["program_json"])), measured[row["program"]])
        for row in once.iter_rows(named=True)
        if row["program"] in measured
    ]


def _beside(
    probes: pl.DataFrame, measured: dict[str, Measurement], progress: Callable[[str], None]
) -> list[Row]:
    once = probes.filter(pl.col("role") == ProbeRole.BESIDE).unique("program", maintain_order=True)
    timed = [
        (loads(text), measured[program].estimate.value)
        for program, text in once.select("program", "program_json").iter_rows()
    ]
    if rows := fit_beside(timed):
        worst = max(row["rel_error"] for row in rows)
        progress(f"beside computing: {len(rows)} kinds and sizes of calls, errors up to {worst:.1%}")
    return rows


def _heldout_row(result: Fit, heldout: list[tuple[Any, Measurement]], progress: Callable[[str], None]) -> Row:
    scored = []
    for counts, timed in heldout:
        us = price_features(counts, result.theta).us
        if us is not None:
            scored.append(Scored(predicted_us=us, samples_us=timed.samples_us))
    figures = fidelity(scored)
    progress(
        f"held-out: {figures.n} Programs, {figures.rounds} rounds: median error "
        f"{figures.median_rel_error:.1%} (repeat {figures.repeat_rel_error:.1%})"
    )
    return {
        **figures.to_row(),
        "problem": None,
        "case": None,
        "direction": None,
        "residual_low": result.theta.residual_low,
        "residual_high": result.theta.residual_high,
    }


def _tell(result: Fit, progress: Callable[[str], None]) -> None:
    """Report the fit in a few lines: statuses, increments, the cross-validated error."""
    by_status = {s: sum(c.status is s for c in result.theta.coefficients) for s in FitStatus}
    progress("coefficients: " + ", ".join(f"{n} {s.value}" for s, n in by_status.items() if n))
    progress("increments kept: " + (", ".join(result.increments) or "none"))
    error = float(np.median(np.abs(1 / result.residuals - 1)))
    progress(f"cross-validated error {error:.1%} on {len(result.residuals)} mixed and shape probes")
